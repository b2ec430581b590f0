package main

import (
	"io"
	stdlog "log"
	"strings"

	uberzap "go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// maxLoggedError bounds the bytes of an error in a line of the log. An error may quote a response of
// the API server, which may quote an object of a user.
const maxLoggedError = 2 << 10

// discardStandardLog discards what net/http's client writes to the standard logger, its only one: the
// bytes that an endpoint of a user sends without a request, up to 16 KiB a line.
func discardStandardLog() { stdlog.SetOutput(io.Discard) }

// boundedCore truncates the errors that it writes.
type boundedCore struct{ zapcore.Core }

func boundErrors(core zapcore.Core) zapcore.Core { return boundedCore{core} }

// With implements zapcore.Core.
func (c boundedCore) With(fields []zapcore.Field) zapcore.Core {
	return boundedCore{c.Core.With(truncated(fields))}
}

// Check implements zapcore.Core.
func (c boundedCore) Check(entry zapcore.Entry, to *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(entry.Level) {
		return to.AddCore(entry, c)
	}
	return to
}

// Write implements zapcore.Core.
func (c boundedCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	return c.Core.Write(entry, truncated(fields))
}

func truncated(fields []zapcore.Field) []zapcore.Field {
	for i, field := range fields {
		err, ok := field.Interface.(error)
		if !ok || field.Type != zapcore.ErrorType {
			continue
		}
		if text := err.Error(); len(text) > maxLoggedError {
			fields[i] = uberzap.String(field.Key, strings.ToValidUTF8(text[:maxLoggedError], "")+" ...")
		}
	}
	return fields
}
