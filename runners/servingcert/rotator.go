package servingcert

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// fieldOwner is the field manager of what the rotator writes into the webhook
// configurations.
const fieldOwner = "leasehold"

// RotatorOptions say whose certificates the rotator keeps.
type RotatorOptions struct {
	// Service is the name of the webhooks' Service; it lives beside the Secret.
	Service string
	// Validating and Mutating name the webhook configurations that must trust
	// the certificate.
	Validating, Mutating string
	// ControllerName must be unique in the process; empty means cert-rotator.
	ControllerName string
}

// AddRotator makes the leader keep source's Secret filled with a certificate
// signed by its own CA, and that CA in the two webhook configurations. Nothing
// of it runs on a standby.
//
// The Secret must exist, empty or not: the rotator updates and never creates.
// Where it does not exist the leader stops with an error that says so.
func AddRotator(mgr manager.Manager, source *Source, o RotatorOptions) error {
	host := o.Service + "." + source.secret.Namespace + ".svc"
	err := rotator.AddRotator(narrowed(mgr, source.secret), &rotator.CertRotator{
		SecretKey:      source.secret,
		CertDir:        source.signDir,
		CAName:         "leasehold-ca",
		CAOrganization: "leasehold",
		DNSName:        host,
		ExtraDNSNames:  []string{host + ".cluster.local"},
		Webhooks: []rotator.WebhookInfo{
			{Name: o.Validating, Type: rotator.Validating},
			{Name: o.Mutating, Type: rotator.Mutating},
		},
		FieldOwner:            fieldOwner,
		RequireLeaderElection: true,
		// The rotator closes this; readiness is judged by a real handshake.
		IsReady:        make(chan struct{}),
		ControllerName: o.ControllerName,
	})
	if err != nil {
		return fmt.Errorf("adding the certificate rotator: %w", err)
	}
	return nil
}

// narrowedManager is the manager as the rotator sees it.
type narrowedManager struct {
	manager.Manager
	config *rest.Config
}

func (m narrowedManager) GetConfig() *rest.Config { return m.config }

// narrowed makes the rotator's own cache list and watch one Secret, where it
// asks for all of the namespace. RBAC then grants that one by name and no other.
func narrowed(mgr manager.Manager, secret types.NamespacedName) manager.Manager {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return oneSecret{
			next:     next,
			path:     "/api/v1/namespaces/" + url.PathEscape(secret.Namespace) + "/secrets",
			selector: fields.OneTermEqualSelector("metadata.name", secret.Name).String(),
		}
	})
	return narrowedManager{Manager: mgr, config: config}
}

// oneSecret adds a field selector to requests for the collection at path.
type oneSecret struct {
	next           http.RoundTripper
	path, selector string
}

// RoundTrip implements http.RoundTripper.
func (o oneSecret) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method != http.MethodGet || req.URL.Path != o.path {
		return o.next.RoundTrip(req)
	}
	// A RoundTripper must leave the request it was given as it is.
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set("fieldSelector", o.selector)
	req.URL.RawQuery = query.Encode()
	return o.next.RoundTrip(req)
}
