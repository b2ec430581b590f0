// SPDX-License-Identifier: Apache-2.0

package fault

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	jsonserializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/watch"
)

// Frame is one event of a watch of a Kubernetes API server. Bookmarks are events, too. The times
// are those of the proxy's clock; a zero time means not yet or never.
type Frame struct {
	Request int // the ID of its watch
	// Type is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
	Type      watch.EventType
	Namespace string
	Name      string
	// Synced is true for the bookmark that ends the initial events. A client that requested them
	// waits for it.
	Synced bool

	Received time.Time // when it was received from the upstream
	// Delivered is the time at which the proxy began to write the last byte to the client's connection,
	// so it precedes each reaction of the client; zero if the write failed or was not tried.
	Delivered time.Time
}

// encoding is the format of a stream of watch events.
type encoding struct {
	framer runtime.Framer
	// describe reads what the journal keeps of an event.
	describe func(event []byte, into *Frame) error
	// end is the separator after each event.
	end string
}

// encodings are those that Kubernetes' clients watch with, by media type.
var encodings = map[string]encoding{
	runtime.ContentTypeJSON:     {framer: jsonserializer.Framer, describe: describeJSON, end: "\n"},
	runtime.ContentTypeProtobuf: {framer: protobuf.LengthDelimitedFramer, describe: describeProtobuf},
}

// encodingOf returns how a watch is encoded that the upstream has begun to answer.
// What is no watch, or is encoded otherwise, just passes.
func encodingOf(answer *http.Response) (encoding, bool) {
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Encoding") != "" ||
		!isWatch(answer.Request.Method, answer.Request.URL.Query()) {
		return encoding{}, false
	}
	media, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil {
		return encoding{}, false
	}
	e, known := encodings[media]
	return e, known
}

// isWatch reports whether a request is a watch, in all spellings of true that the API server
// accepts.
func isWatch(method string, query url.Values) bool {
	switch strings.ToLower(query.Get("watch")) {
	case "true", "1":
		return method == http.MethodGet
	}
	return false
}

// The only limit of events, which is client-go's.
const largestFrame = 16 << 20

// readFrame reads a whole event.
func readFrame(framed io.Reader) ([]byte, error) {
	frame := make([]byte, 0, 4096)
	for {
		n, err := framed.Read(frame[len(frame):cap(frame)])
		frame = frame[:len(frame)+n]
		if !errors.Is(err, io.ErrShortBuffer) {
			return frame, err
		}
		if len(frame) >= largestFrame {
			return nil, fmt.Errorf("reading an event of a watch: it has more than %d bytes", largestFrame)
		}
		frame = append(make([]byte, 0, 2*cap(frame)), frame...)
	}
}

// bytes is the event as the upstream has put it into the stream.
func (e encoding) bytes(event []byte) []byte {
	var framed bytes.Buffer
	_, _ = e.framer.NewFrameWriter(&framed).Write(event) // memory takes everything
	framed.WriteString(e.end)
	return framed.Bytes()
}

func describeJSON(event []byte, into *Frame) error {
	var read metav1.WatchEvent
	if err := json.Unmarshal(event, &read); err != nil {
		return err
	}
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(read.Object.Raw, &object); err != nil {
		return err
	}
	into.describe(read.Type, object.ObjectMeta)
	return nil
}

// protobufPrefix precedes an object in Kubernetes' protobuf encoding.
var protobufPrefix = []byte("k8s\x00")

func describeProtobuf(event []byte, into *Frame) error {
	var read metav1.WatchEvent
	if err := read.Unmarshal(event); err != nil {
		return err
	}
	var object runtime.Unknown
	if err := object.Unmarshal(bytes.TrimPrefix(read.Object.Raw, protobufPrefix)); err != nil {
		return err
	}
	// All kinds have their metadata in the same place; the rest is skipped. A Status, which an error
	// has, has none of this form.
	var partial metav1.PartialObjectMetadata
	if read.Type != string(watch.Error) {
		if err := partial.Unmarshal(object.Raw); err != nil {
			return err
		}
	}
	into.describe(read.Type, partial.ObjectMeta)
	return nil
}

func (f *Frame) describe(event string, object metav1.ObjectMeta) {
	f.Type, f.Namespace, f.Name = watch.EventType(event), object.Namespace, object.Name
	f.Synced = object.Annotations[metav1.InitialEventsAnnotationKey] == "true"
}
