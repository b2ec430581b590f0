package reporting

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// A request that is no review has no line in the log.
func TestLogOfReview(t *testing.T) {
	review := &admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{UID: "review-1", Name: "acme"}}
	for name, tc := range map[string]struct {
		review *admission.Request
		lines  int
	}{
		"Review":       {review, 1},
		"OtherRequest": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var lines []string
			base := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
			LogOfReview(base, tc.review).Info("denied")
			if len(lines) != tc.lines || tc.lines > 0 && !strings.Contains(lines[0], "acme") {
				t.Errorf("the log has %q, want %d lines", lines, tc.lines)
			}
		})
	}
}
