// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

// fleetOf is a Fleet of n Provers that have started.
func fleetOf(n int) *Fleet {
	f := &Fleet{}
	for range n {
		p := &Prover{}
		f.provers = append(f.provers, func() (*Prover, error) { return p, nil })
	}
	return f
}

func TestFleet_WorksWhileOthersStart(t *testing.T) {
	g := NewWithT(t)
	f, worked := fleetOf(2), make(chan struct{})
	wrong := errors.New("wrong")
	f.provers[1] = func() (*Prover, error) { <-worked; return nil, wrong }
	err := f.Each(t.Context(), 2, func(_ context.Context, _ *Prover, i int) error {
		if i == 1 {
			close(worked)
		}
		return nil
	})
	g.Expect(err).To(MatchError(wrong))
}

func TestFleet_CallsEachOnce(t *testing.T) {
	g := NewWithT(t)
	f := fleetOf(3)
	var mu sync.Mutex
	done, by := map[int]int{}, map[*Prover]int{}
	var together sync.WaitGroup // no worker continues before all have started
	together.Add(len(f.provers))
	g.Expect(f.Each(t.Context(), 10, func(_ context.Context, p *Prover, i int) error {
		mu.Lock()
		done[i]++
		by[p]++
		first := by[p] == 1
		mu.Unlock()
		if first {
			together.Done()
			together.Wait()
		}
		return nil
	})).To(Succeed())
	g.Expect(done).To(HaveLen(10))
	g.Expect(done).NotTo(ContainElement(2))
	g.Expect(by).To(HaveLen(len(f.provers)), "side by side")
}

func TestFleet_StopsAtAnError(t *testing.T) {
	g := NewWithT(t)
	f := fleetOf(2)
	wrong := errors.New("wrong")
	var mu sync.Mutex
	begun := 0
	err := f.Each(t.Context(), 1000, func(ctx context.Context, _ *Prover, i int) error {
		mu.Lock()
		begun++
		mu.Unlock()
		if i == 3 {
			return wrong
		}
		if i > 3 {
			<-ctx.Done()
		}
		return nil
	})
	g.Expect(err).To(MatchError(wrong))
	g.Expect(begun).To(BeNumerically("<", 10))
}

func TestFleet_ReportsCancellation(t *testing.T) {
	g := NewWithT(t)
	f := fleetOf(1)
	ctx, cancel := context.WithCancel(t.Context())
	err := f.Each(ctx, 5, func(_ context.Context, _ *Prover, i int) error {
		if i == 1 {
			cancel()
		}
		return nil
	})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(f.Each(t.Context(), 0, nil)).To(Succeed())
}
