package scale

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// pace is how fast a client that does nothing but write has written.
type pace struct {
	writes int
	took   time.Duration
}

// each is how long one write took of the whole time, with all workers at work.
func (p pace) each() time.Duration { return p.took / time.Duration(max(p.writes, 1)) }

// rate is how many there were in a second.
func (p pace) rate() float64 { return float64(p.writes) / p.took.Seconds() }

// write writes what the operator would for a fleet of Tenants that are there and
// that are not reconciled: as the operator's ServiceAccount, by as many workers, each
// with one Tenant at a time and the events beside it. It neither reads nor decides,
// and does not look into answers. All that was written has been answered when
// it returns.
func (f *testbed) write(ctx context.Context, s shape, fleet string, uids []types.UID) (pace, error) {
	c, err := f.rawClient()
	if err != nil {
		return pace{}, err
	}
	events, beside := errgroup.WithContext(ctx)
	began := f.bench.Clock.Now()
	err = each(ctx, len(uids), func(ctx context.Context, i int) error {
		for _, w := range s {
			w = w.of(member(fleet, i), uids[i])
			if w.event {
				events.Go(func() error { return send(beside, c, w) })
				continue
			}
			if err := send(ctx, c, w); err != nil {
				return err
			}
		}
		return nil
	})
	if late := events.Wait(); err == nil {
		err = late
	}
	return pace{writes: len(s) * len(uids), took: f.bench.Clock.Since(began)}, err
}

// rawClient is the operator to the API server, with its token, and not limited.
func (f *testbed) rawClient() (rest.Interface, error) {
	config := f.replica.Config()
	config.QPS = -1
	config.NegotiatedSerializer = clientgoscheme.Codecs.WithoutConversion()
	c, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client that only writes: %w", err)
	}
	return c, nil
}

func send(ctx context.Context, c rest.Interface, w write) error {
	err := c.Verb(w.method).RequestURI(w.path).
		SetHeader("Content-Type", w.contentType).SetHeader("Accept", w.accept).
		Body([]byte(w.body)).Do(ctx).Error()
	if err != nil {
		return fmt.Errorf("writing %s: %w", w.path, err)
	}
	return nil
}
