// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// logged has the errors in the log of the process, which has one logger.
var logged struct {
	mu     sync.Mutex
	errors []string
}

func TestMain(m *testing.M) {
	ctrl.SetLogger(funcr.New(func(_, line string) {
		if strings.Contains(line, `"error"=`) {
			logged.mu.Lock()
			defer logged.mu.Unlock()
			logged.errors = append(logged.errors, line)
		}
	}, funcr.Options{}))
	os.Exit(m.Run())
}

// loggedErrors returns the errors that were logged since its last call.
func loggedErrors() []string {
	logged.mu.Lock()
	defer logged.mu.Unlock()
	lines := logged.errors
	logged.errors = nil
	return lines
}

// The rotator's runnable and its controller both issue the first certificate. The later one gets a Conflict,
// which is no error: the Secret has a certificate.
func TestConflictOfTheFirstCertificateIsNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, first := newCluster(t, &corev1.Secret{}), aged(t, 365*day, 3650*day)
		var once sync.Once
		c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{Update: func(ctx context.Context,
			inner client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if _, isSecret := o.(*corev1.Secret); isSecret {
				once.Do(func() {
					first.Namespace, first.Name = key.Namespace, key.Name
					if err := inner.Update(ctx, first); err != nil {
						t.Error(err)
					}
				})
			}
			return inner.Update(ctx, o, opts...)
		}})
		loggedErrors()
		source := age(t, c)
		<-time.After(time.Minute)
		synctest.Wait()
		if leaf, _, err := c.served(t.Context(), source); err != nil || time.Until(leaf.NotAfter) > 366*day {
			t.Errorf("the certificate that was first is not served: %v", err)
		}
		if lines := loggedErrors(); len(lines) > 0 {
			t.Errorf("nothing failed, and these errors are logged:\n%s", strings.Join(lines, "\n"))
		}
	})
}
