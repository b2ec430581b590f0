// SPDX-License-Identifier: Apache-2.0

package servingcert

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

var _ manager.LeaderElectionRunnable = (*Source)(nil)

// Source watches one Secret on every replica and caches its certificate.
type Source struct {
	secret  types.NamespacedName
	signDir string
	cache   cache.Cache
	current atomic.Pointer[tls.Certificate]
}

// NewSource returns a Source for tls.crt and tls.key of the Secret. It creates a temporary
// directory. After loading a certificate the Source writes a copy of tls.crt there, which the
// rotator waits for. It never writes the key. Start removes the directory when it ends.
func NewSource(secret types.NamespacedName) (*Source, error) {
	dir, err := os.MkdirTemp("", "serving-certificate-")
	if err != nil {
		return nil, fmt.Errorf("creating the directory for the rotator's copy of tls.crt: %w", err)
	}
	return &Source{secret: secret, signDir: dir}, nil
}

// SetupWithManager adds the Source to the manager. The Secret has a separate cache, so that the
// operator needs rights on this Secret only, and the shared cache never holds a Secret.
func (s *Source) SetupWithManager(mgr manager.Manager) error {
	own, err := cache.New(mgr.GetConfig(), cache.Options{
		Scheme:     mgr.GetScheme(),
		Mapper:     mgr.GetRESTMapper(),
		HTTPClient: mgr.GetHTTPClient(),
		ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {
			Namespaces: map[string]cache.Config{s.secret.Namespace: {
				FieldSelector: fields.OneTermEqualSelector("metadata.name", s.secret.Name),
			}},
			Transform: keepServed,
		}},
	})
	if err != nil {
		return fmt.Errorf("building the cache for Secret %s: %w", s.secret, err)
	}
	s.cache = own
	if err := mgr.Add(s); err != nil {
		return fmt.Errorf("adding the source of the serving certificate: %w", err)
	}
	return nil
}

// keepServed drops all data except the served pair, in particular the CA's private key.
func keepServed(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		secret.ManagedFields = nil
		secret.Data = map[string][]byte{
			corev1.TLSCertKey:       secret.Data[corev1.TLSCertKey],
			corev1.TLSPrivateKeyKey: secret.Data[corev1.TLSPrivateKeyKey],
		}
	}
	return object, nil
}

// NeedLeaderElection returns false: webhooks also serve on standbys.
func (s *Source) NeedLeaderElection() bool { return false }

// Start follows the Secret until ctx is done. After that the last certificate stays in use, for
// requests during the shutdown.
func (s *Source) Start(ctx context.Context) (err error) {
	defer func() {
		if removeErr := os.RemoveAll(s.signDir); removeErr != nil && err == nil {
			err = fmt.Errorf("removing the rotator's copy of tls.crt: %w", removeErr)
		}
	}()
	informer, err := s.cache.GetInformer(ctx, &corev1.Secret{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching Secret %s: %w", s.secret, err)
	}
	logger := log.FromContext(ctx).WithName("serving-certificate").WithValues("secret", s.secret.String())
	take := func(object any) {
		secret, ok := object.(*corev1.Secret)
		if !ok {
			return
		}
		switch fresh, err := s.load(secret); {
		case err != nil:
			logger.Error(err,
				"cannot load the serving certificate, so the previous certificate stays in use; correct tls.crt and "+
					"tls.key in the Secret")
		case fresh != nil:
			logger.Info("serving a new certificate",
				"notBefore", fresh.Leaf.NotBefore, "notAfter", fresh.Leaf.NotAfter)
		}
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    take,
		UpdateFunc: func(_, object any) { take(object) },
	}); err != nil {
		return fmt.Errorf("adding an event handler for Secret %s: %w", s.secret, err)
	}
	if err := s.cache.Start(ctx); err != nil {
		return fmt.Errorf("running the cache of Secret %s: %w", s.secret, err)
	}
	return nil
}

// load uses the Secret's certificate and returns it. It returns nil if nothing has changed: the
// Secret is still empty, or the same pair is in use.
func (s *Source) load(secret *corev1.Secret) (*tls.Certificate, error) {
	certPEM, keyPEM := secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey]
	if len(certPEM) == 0 && len(keyPEM) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parsing tls.crt and tls.key: %w", err)
	}
	// The copy is written after every successful parse, not only for a new pair, so that a failed
	// write is retried at the next event.
	defer s.current.Store(&pair)
	if err := os.WriteFile(filepath.Join(s.signDir, corev1.TLSCertKey), certPEM, 0o600); err != nil {
		return nil, fmt.Errorf("writing the rotator's copy of tls.crt: %w", err)
	}
	if old := s.current.Load(); old != nil && bytes.Equal(old.Leaf.Raw, pair.Leaf.Raw) {
		return nil, nil
	}
	return &pair, nil
}

// GetCertificate is for tls.Config. It returns an error until the first certificate is loaded. Then
// the handshake fails too, and the replica is not ready.
func (s *Source) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	current := s.current.Load()
	if current == nil {
		return nil, fmt.Errorf("no serving certificate yet: Secret %s is empty, missing or not readable", s.secret)
	}
	return current, nil
}
