// SPDX-License-Identifier: Apache-2.0

package program

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	. "github.com/onsi/gomega"
)

func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewWithT(t)
		var output bytes.Buffer
		stop := Progress(&output, 15*time.Second, "learning")
		<-time.After(40 * time.Second)
		stop()
		<-time.After(time.Minute)
		g.Expect(output.String()).To(Equal("learning, 15 s so far\nlearning, 30 s so far\n"))
	})
}
