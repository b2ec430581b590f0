// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/klog/v2"
	"k8s.io/klog/v2/textlogger"
)

// LogTo writes client-go's log to a file in dir until the program closes it. On standard error its
// lines would stand between the results.
func LogTo(dir string) (io.Closer, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("making the folder of the log: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, "client-go.log"))
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	klog.SetLogger(textlogger.NewLogger(textlogger.NewConfig(textlogger.Output(file))))
	return closer(func() error {
		klog.ClearLogger()
		return file.Close()
	}), nil
}

type closer func() error

func (c closer) Close() error { return c() }
