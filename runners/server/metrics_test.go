package server

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"leasehold.dev/runners/connections"
)

// Many made-up tokens of one client, which take a second each, delay the review of another one by a
// turn. A client that reads its page slowly delays none.
func TestReviewsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reading := make(chan struct{})
		page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-reading })
		handler, err := takeTurns(newTurns(reviewsAtOnce), page, func(page http.Handler) (http.Handler, error) {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if connections.HostOf(r.RemoteAddr) != "attacker" {
					page.ServeHTTP(w, r)
					return
				}
				<-time.After(time.Second)
				http.Error(w, "Unauthorized", http.StatusUnauthorized)
			}), nil
		})
		if err != nil {
			t.Fatal(err)
		}
		answers := make(chan int, 100)
		for range 100 {
			go func() { answers <- send(handler, post("attacker", "/metrics", nil)).Code }()
		}
		synctest.Wait()
		began := time.Now()
		served := make(chan time.Duration)
		for range 2 * reviewsAtOnce { // none of them reads its page
			go func() {
				send(handler, post("scraper", "/metrics", nil))
				served <- time.Since(began)
			}()
		}
		<-time.After(3 * time.Second)
		close(reading)
		for range 2 * reviewsAtOnce {
			if took := <-served; took > 3*time.Second {
				t.Errorf("a scraper waited for %s", took)
			}
		}
		codes := map[int]int{}
		for range 100 {
			codes[<-answers]++
		}
		// No request waits for longer than the time in which a request has to arrive.
		if codes[http.StatusUnauthorized] < 30 || codes[http.StatusUnauthorized]+codes[http.StatusServiceUnavailable] != 100 {
			t.Errorf("the attacker got %v", codes)
		}
	})
}
