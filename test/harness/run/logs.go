// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"io"
	"os"
	"slices"
)

// Logs returns what the processes of all replicas have written, by the names of the replicas. It may be called
// while a run goes on.
func (p *Prover) Logs() (map[string][]byte, error) { return p.logsFrom(nil) }

// logsFrom returns what the processes of replicas have written since the offsets, by their names. A
// replica without an offset started later.
func (p *Prover) logsFrom(offsets map[*replica]int64) (map[string][]byte, error) {
	p.mu.Lock()
	all := slices.Concat(p.removed, p.replicas)
	p.mu.Unlock()
	logs := map[string][]byte{}
	for _, r := range all {
		text, err := readFrom(r.process.LogPath(), offsets[r])
		if err != nil {
			return nil, fmt.Errorf("reading the log of %s: %w", r.process.Name(), err)
		}
		logs[r.process.Name()] = append(logs[r.process.Name()], text...)
	}
	return logs, nil
}

func (p *Prover) logSizes() (map[*replica]int64, error) {
	sizes := map[*replica]int64{}
	for _, r := range p.running() {
		info, err := os.Stat(r.process.LogPath())
		if err != nil {
			return nil, fmt.Errorf("looking for the log of %s: %w", r.process.Name(), err)
		}
		sizes[r] = info.Size()
	}
	return sizes, nil
}

// readFrom reads a file from an offset to its end.
func readFrom(path string, offset int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // it is only read
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(file)
}
