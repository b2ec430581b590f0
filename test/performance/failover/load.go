package failover

import (
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// load is the steady work of the operator: it takes the subjects out of one binding
// after another, and each replica that leads, or believes so, puts them back with one write.
type load struct {
	client  client.Client
	clock   clock.WithTicker
	tenants []string
	next    int
}

// broken is a binding without subjects.
var broken = client.RawPatch(types.MergePatchType, []byte(`{"subjects":null}`))

// begin works once in every so much time, until end is called, which returns what
// went wrong.
func (l *load) begin(ctx context.Context, every time.Duration) (end func() error) {
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan error, 1)
	go func() { over <- l.run(ctx, every) }()
	return func() error {
		cancel()
		return <-over
	}
}

func (l *load) run(ctx context.Context, every time.Duration) error {
	ticker := l.clock.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
		}
		binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "leasehold:tenant-reader:" +
			l.tenants[l.next]}}
		l.next = (l.next + 1) % len(l.tenants)
		if err := l.client.Patch(ctx, binding, broken); err != nil && ctx.Err() == nil {
			return fmt.Errorf("breaking what the operator has made: %w", err)
		}
	}
}
