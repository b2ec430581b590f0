// SPDX-License-Identifier: Apache-2.0

package record

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Bookmark is a position between two lines of an audit log, in bytes. The zero Bookmark is the
// beginning.
type Bookmark int64

// ReadAuditLog reads all events of an audit log that contains one JSON object per line.
func ReadAuditLog(path string) ([]auditv1.Event, error) {
	events, _, err := ReadAuditLogFrom(path, 0)
	return events, err
}

// End returns the position after the last complete line, for a spec that judges only later events.
// The API server writes a line when it completes a request, so the next lines may be about requests
// that began earlier.
func End(path string) (Bookmark, error) {
	_, end, err := ReadAuditLogFrom(path, 0)
	return end, err
}

// ReadAuditLogFrom reads the events after the bookmark and returns the bookmark at which it
// stopped. It leaves a last line that is still being written for the next call. It returns an error
// if the log is shorter than the bookmark, because lines have then been lost.
func ReadAuditLogFrom(path string, from Bookmark) (events []auditv1.Event, end Bookmark, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, from, fmt.Errorf("opening the audit log: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, from, fmt.Errorf("measuring the audit log: %w", err)
	}
	if size < int64(from) {
		return nil, from, fmt.Errorf("audit log %s has %d bytes, fewer than at the bookmark %d: it was rotated or truncated",
			path, size, from)
	}
	if _, err := file.Seek(int64(from), io.SeekStart); err != nil {
		return nil, from, fmt.Errorf("going to the bookmark in the audit log: %w", err)
	}

	reader := bufio.NewReader(file)
	for {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, from, nil
		}
		if err != nil {
			return nil, from, fmt.Errorf("reading the audit log: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			var event auditv1.Event
			if err := json.Unmarshal(line, &event); err != nil {
				return nil, from, fmt.Errorf("decoding the audit log at byte %d: %w", from, err)
			}
			events = append(events, event)
		}
		from += Bookmark(len(line))
	}
}
