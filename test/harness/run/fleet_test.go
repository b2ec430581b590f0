// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

func TestFleet_CallsEachOnce(t *testing.T) {
	g := NewWithT(t)
	f := &Fleet{provers: []*Prover{{}, {}, {}}}
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
	f := &Fleet{provers: []*Prover{{}, {}}}
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
	f := &Fleet{provers: []*Prover{{}}}
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
