package reporting

import (
	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// LogOfReview returns the logger of a webhook for a review, and one that discards all lines for a
// request that is none. Any client can send such requests, and their lines would displace all
// others. Each response has the error.
func LogOfReview(base logr.Logger, review *admission.Request) logr.Logger {
	if review == nil {
		return logr.Discard()
	}
	return admission.DefaultLogConstructor(base, review)
}
