package health

import (
	"encoding/json"
	"net/http"

	"sigs.k8s.io/controller-runtime/pkg/log"
)

// page is the content of Page. It has counts and times and no names of objects, so it does not
// disclose what tenants own.
type page struct {
	Replica string `json:"replica"`
	// Leader is true from the election on; a leader that loses the Lease exits.
	Leader      bool         `json:"leader"`
	Controllers []Controller `json:"controllers"`
}

// Page returns the read-only debug page of a replica, as JSON. It does not authorize requests; it
// must be served behind a filter that does.
func Page(replica string, elected <-chan struct{}, progress *Progress) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodGet && req.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "the page is read-only", http.StatusMethodNotAllowed)
			return
		}
		p := page{Replica: replica, Controllers: progress.Controllers()}
		select {
		case <-elected:
			p.Leader = true
		default:
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		if err := json.NewEncoder(w).Encode(p); err != nil {
			log.FromContext(req.Context()).V(1).Info("the reader of the debug page has left", "reason", err.Error())
		}
	})
}
