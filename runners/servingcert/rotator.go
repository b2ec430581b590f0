// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/open-policy-agent/cert-controller/pkg/rotator"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

// RotatorOptions name the objects whose certificates the rotator maintains.
type RotatorOptions struct {
	// Service is the name of the webhooks' Service, in the namespace of the Secret.
	Service string
	// Validating and Mutating name the webhook configurations that must trust the certificate.
	Validating, Mutating string
	// Client writes the certificates. It must not wait for its own writes, as the manager's may: that
	// would watch the Secrets of all namespaces.
	Client client.Client
	// ControllerName must be unique in the process; empty means cert-rotator.
	ControllerName string
}

// AddRotator adds a runnable that keeps a certificate signed by its own CA in source's Secret, and
// that CA in the two webhook configurations. It runs only on the leader.
//
// The Secret must exist, even if it is empty: the rotator updates it and never creates it. Without
// it the leader stops with an error that names the Secret.
func AddRotator(mgr manager.Manager, source *Source, o RotatorOptions) error {
	host := o.Service + "." + source.secret.Namespace + ".svc"
	err := rotator.AddRotator(narrowed(mgr, o.Client, source.secret), &rotator.CertRotator{
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
		FieldOwner:            "leasehold", // of writes to the webhook configurations
		RequireLeaderElection: true,
		// The rotator closes this channel. Readiness does not depend on it but on a real handshake.
		IsReady:        make(chan struct{}),
		ControllerName: o.ControllerName,
	})
	if err != nil {
		return fmt.Errorf("adding the certificate rotator: %w", err)
	}
	return nil
}

// narrowedManager is the manager that the rotator gets.
type narrowedManager struct {
	manager.Manager
	config *rest.Config
	client client.Client
}

func (m narrowedManager) GetConfig() *rest.Config { return m.config }

func (m narrowedManager) GetClient() client.Client { return m.client }

// Add implements manager.Manager. It adds a runnable that ends with its context.
func (m narrowedManager) Add(r manager.Runnable) error { return m.Manager.Add(ending{r}) }

// ending ends as soon as its context is done. The rotator repeats some calls for half a minute, which
// ignores the context and would delay the stop of a replica that has just begun to lead. The process
// ends right after, and until then the guard of the term rejects its writes.
type ending struct{ manager.Runnable }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (e ending) NeedLeaderElection() bool {
	elected, ok := e.Runnable.(manager.LeaderElectionRunnable)
	return !ok || elected.NeedLeaderElection()
}

// Start implements manager.Runnable.
func (e ending) Start(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- e.Runnable.Start(ctx) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return nil
	}
}

// narrowed restricts the rotator's own cache to one Secret. Without it the cache would list the
// whole namespace. With it RBAC can grant that one Secret by name.
func narrowed(mgr manager.Manager, writer client.Client, secret types.NamespacedName) manager.Manager {
	config := rest.CopyConfig(mgr.GetConfig())
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return oneSecret{
			next:     next,
			path:     "/api/v1/namespaces/" + url.PathEscape(secret.Namespace) + "/secrets",
			selector: fields.OneTermEqualSelector("metadata.name", secret.Name).String(),
		}
	})
	return narrowedManager{Manager: mgr, config: config, client: issuing{writer}}
}

// issuing writes what the rotator issues. Its runnable and its controller both issue the first certificate, and
// the rotator would log the Conflict of the later one as two errors. The watch event of the Secret that
// caused a Conflict triggers the next check.
type issuing struct{ client.Client }

// Update implements client.Writer.
func (i issuing) Update(ctx context.Context, o client.Object, opts ...client.UpdateOption) error {
	err := i.Client.Update(ctx, o, opts...)
	if _, isSecret := o.(*corev1.Secret); isSecret && apierrors.IsConflict(err) {
		return nil
	}
	return err
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
	// A RoundTripper must not modify the request.
	req = req.Clone(req.Context())
	query := req.URL.Query()
	query.Set("fieldSelector", o.selector)
	req.URL.RawQuery = query.Encode()
	return o.next.RoundTrip(req)
}
