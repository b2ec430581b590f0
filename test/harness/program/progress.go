// SPDX-License-Identifier: Apache-2.0

package program

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Progress prints a line with the elapsed time once a period, until stop is called. Nothing else may write to the
// output meanwhile.
func Progress(output io.Writer, period time.Duration, what string) (stop func()) {
	ended, began := make(chan struct{}), time.Now()
	var printing sync.WaitGroup
	printing.Go(func() {
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
				fmt.Fprintf(output, "%s, %.0f s so far\n", what, time.Since(began).Seconds())
			}
		}
	})
	return func() {
		close(ended)
		printing.Wait()
	}
}
