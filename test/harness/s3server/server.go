// SPDX-License-Identifier: Apache-2.0

// Package s3server starts a real S3 server on this machine, for operators that manage buckets outside the cluster.
package s3server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"k8s.io/apimachinery/pkg/util/wait"

	"leasehold.dev/test/harness/internal/process"
)

const (
	// variable names an S3 server program of the user's own.
	variable = "S3SERVER"
	// Region is the only region that a Server serves.
	Region = "us-east-1"
	// startTimeout bounds the wait for the first answer, which takes well under a second.
	startTimeout = 20 * time.Second
	// poll is the interval at which a starting server is polled.
	poll = 20 * time.Millisecond
)

// built is where `make s3server` leaves the program, below the module's root.
var built = filepath.Join("bin", "s3server", "versitygw")

// ErrMissing is returned if this machine has no S3 server to start.
var ErrMissing = errors.New("no S3 server has been built: run `make s3server`, or set " + variable)

// Options configure an S3 server. The zero value is valid.
type Options struct {
	// WorkDir is the folder in which Start creates the server's own folder, with its data and its
	// log. Empty: the system's folder for temporary files.
	WorkDir string
}

// restartable hides the field in Server.
type restartable = process.Restartable

// Server is a real S3 server on this machine: versitygw with its data in folders and files, or the
// program that S3SERVER names. It supports versioning and object lock. Its methods may be called from
// several goroutines.
type Server struct {
	restartable

	mu      sync.Mutex
	program program
	dir     string
	spec    process.Spec
	guard   *process.Watchdog
	ports   []int
	account Account
	others  []Account // of SeaweedFS; changed under the lock
	client  *minio.Client
	ended   bool // on purpose: by Kill; changed under the lock

	stop    sync.Once
	stopErr error
}

// Account is the identity of a client at an S3 server.
type Account struct {
	AccessKey, SecretKey string
	// SessionToken is empty for an account with keys of its own.
	SessionToken string
}

// Start starts an S3 server and returns when the server answers requests of its root account,
// whose keys are new each time. It returns ErrMissing, wrapped, if the program is missing. The
// caller must call Stop.
func Start(ctx context.Context, o Options) (_ *Server, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting an S3 server: %w", err)
		}
	}()
	binary, err := Find()
	if err != nil {
		return nil, err
	}
	program, err := programOf(binary)
	if err != nil {
		return nil, err
	}
	free, err := process.FreePorts(program.ports)
	if err != nil {
		return nil, err
	}
	dir, watchdog, err := process.GuardedDir(o.WorkDir, "s3server-")
	if err != nil {
		return nil, err
	}
	s := &Server{program: program, dir: dir, ports: free, account: newAccount(),
		guard: watchdog}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Stop())
		}
	}()
	if err := s.configure(binary); err != nil {
		return nil, err
	}
	if err := s.start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Find returns the path in $S3SERVER, or else that of the program that `make s3server` built. It
// returns ErrMissing, wrapped, if there is neither.
func Find() (string, error) { return process.Find(variable, built, ErrMissing) }

// configure creates the folders and files, and sets the program's arguments.
func (s *Server) configure(binary string) error {
	for _, name := range s.program.folders {
		if err := os.Mkdir(s.folder(name), 0o700); err != nil {
			return fmt.Errorf("creating a folder of the S3 server: %w", err)
		}
	}
	if s.program.prepare != nil {
		if err := s.program.prepare(s); err != nil {
			return err
		}
	}
	s.spec = process.Spec{Name: "the S3 server", Program: binary, Log: s.Log(), Dir: s.dir}
	s.spec.Args, s.spec.Env = s.program.command(s)
	var err error
	s.client, err = s.ClientFor(s.account)
	return err
}

// start starts the program and waits until it answers a signed request. Only a server with these
// keys can do so, so another process on the port cannot pass for it.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, err := process.Begin(&s.restartable, s.guard, s.spec)
	if err != nil {
		return err
	}
	s.ended = false
	var last error
	err = wait.PollUntilContextTimeout(ctx, poll, startTimeout, true, func(ctx context.Context) (bool, error) {
		if !server.Running() {
			return false, errors.New("it ended by itself")
		}
		_, last = s.client.ListBuckets(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.ended = !server.Running() // this error reports it, so Stop need not
		return fmt.Errorf("waiting for the first answer: %w (%w)\nthe end of its log:\n%s", err, errors.Join(last),
			process.Tail(s.Log(), 10))
	}
	return nil
}

// Endpoint returns the URL to send requests to.
func (s *Server) Endpoint() string { return "http://" + s.address() }

// Account returns the root account, which has access to everything.
func (s *Server) Account() Account { return s.account }

// Program returns the name of the server program: versitygw, weed (SeaweedFS) or minio.
func (s *Server) Program() string { return s.program.name }

// Log returns the path of the server's log. versitygw writes one line for each request, and no key.
func (s *Server) Log() string { return s.folder(s.program.name + ".log") }

func (s *Server) address() string           { return fmt.Sprintf("127.0.0.1:%d", s.ports[0]) }
func (s *Server) folder(name string) string { return filepath.Join(s.dir, name) }
func (s *Server) data() string              { return s.folder("data") }

// Client returns a client of the root account. It does not retry, and leaves no connection open.
func (s *Server) Client() *minio.Client { return s.client }

// ClientFor is like Client, for another account.
func (s *Server) ClientFor(account Account) (*minio.Client, error) {
	client, err := minio.New(s.address(), &minio.Options{
		Creds:        credentials.NewStaticV4(account.AccessKey, account.SecretKey, account.SessionToken),
		Region:       Region,
		BucketLookup: minio.BucketLookupPath,
		MaxRetries:   1,
		Transport:    &http.Transport{DisableKeepAlives: true},
	})
	if err != nil {
		return nil, fmt.Errorf("creating an S3 client: %w", err)
	}
	return client, nil
}

// AddAccount creates an account with new keys. It may not create buckets, and without a bucket policy it has no access
// to those of other accounts.
func (s *Server) AddAccount(ctx context.Context) (Account, error) {
	account, err := s.program.add(ctx, s)
	if err != nil {
		return Account{}, fmt.Errorf("adding an account to the S3 server: %w", err)
	}
	return account, nil
}

// newAccount returns new keys, as long as those of AWS.
func newAccount() Account {
	return Account{AccessKey: rand.Text()[:20], SecretKey: (rand.Text() + rand.Text())[:40]}
}

// Kill sends SIGKILL and waits until the process has exited. Connections are refused from then on.
// The data is kept.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	server := process.Current(&s.restartable)
	s.ended = s.ended || server.Running()
	server.Kill()
}

// Restart starts the server again after it has exited, with the same port, accounts and data, and
// returns when it answers. It returns an error if the server still runs.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restarting the S3 server: %w", err)
	}
	return nil
}

// Stop stops the server and removes its folder. It is idempotent. It returns an error if the server
// exited on its own, because tests that relied on it proved nothing.
func (s *Server) Stop() error {
	s.stop.Do(func() {
		var err error
		if server := process.Current(&s.restartable); server != nil {
			if !server.Running() && !s.ended {
				err = fmt.Errorf("stopping the S3 server: it ended by itself (%v):\n%s", server.State, process.Tail(s.Log(), 10))
			}
			// It keeps nothing that an orderly stop would save.
			server.Kill()
		}
		s.stopErr = errors.Join(err, s.removeSockets(), s.guard.Release())
	})
	return s.stopErr
}

// removeSockets removes what a killed server leaves outside its folder.
func (s *Server) removeSockets() error {
	if s.program.leaves == "" {
		return nil
	}
	var all error
	for _, port := range s.ports {
		paths, err := filepath.Glob(fmt.Sprintf(s.program.leaves, port))
		all = errors.Join(all, err)
		for _, path := range paths {
			all = errors.Join(all, os.Remove(path))
		}
	}
	return all
}
