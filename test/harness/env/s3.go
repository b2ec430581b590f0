// SPDX-License-Identifier: Apache-2.0

package env

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
)

const (
	// s3Variable names an S3 server program of the user's own.
	s3Variable = "S3SERVER"
	// S3Region is the only region that an S3Server serves.
	S3Region = "us-east-1"
	// s3StartTimeout bounds the wait for the first answer, which takes well under a second.
	s3StartTimeout = 20 * time.Second
	// s3Poll is the interval at which a starting server is polled.
	s3Poll = 20 * time.Millisecond
)

// builtS3 is where `make s3server` leaves the program, below the module's root.
var builtS3 = filepath.Join("bin", "s3server", "versitygw")

// ErrNoS3Server is returned if this machine has no S3 server to start.
var ErrNoS3Server = errors.New("no S3 server has been built: run `make s3server`, or set " + s3Variable)

// S3Options configure an S3 server. The zero value is valid.
type S3Options struct {
	// WorkDir is the folder in which StartS3 creates the server's own folder, with its data and its
	// log. Empty: the system's folder for temporary files.
	WorkDir string
}

// S3Server is a real S3 server on this machine: versitygw with its data in folders and files, or the
// program that S3SERVER names. It supports versioning and object lock. Its methods may be called from
// several goroutines.
type S3Server struct {
	restartable

	program s3Program
	dir     string
	ports   []int
	account S3Account
	others  []S3Account // of SeaweedFS; changed under the lock
	client  *minio.Client
	ended   bool // on purpose: by Kill; changed under the lock

	stop    sync.Once
	stopErr error
}

// S3Account is the identity of a client at an S3 server.
type S3Account struct {
	AccessKey, SecretKey string
	// SessionToken is empty for an account with keys of its own.
	SessionToken string
}

// StartS3 starts an S3 server and returns when the server answers requests of its root account,
// whose keys are new each time. It returns ErrNoS3Server, wrapped, if the program is missing. The
// caller must call Stop.
func StartS3(ctx context.Context, o S3Options) (_ *S3Server, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("starting an S3 server: %w", err)
		}
	}()
	binary, err := FindS3Server()
	if err != nil {
		return nil, err
	}
	program, err := s3ProgramOf(binary)
	if err != nil {
		return nil, err
	}
	free, err := freePorts(program.ports)
	if err != nil {
		return nil, err
	}
	dir, watchdog, err := guardedDir(o.WorkDir, "s3server-")
	if err != nil {
		return nil, err
	}
	s := &S3Server{program: program, dir: dir, ports: free, account: newS3Account(),
		restartable: restartable{watchdog: watchdog}}
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

// configure creates the folders and files, and sets the program's arguments.
func (s *S3Server) configure(binary string) error {
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
	s.spec = spec{name: "the S3 server", program: binary, log: s.Log(), dir: s.dir}
	s.spec.args, s.spec.env = s.program.command(s)
	var err error
	s.client, err = s.ClientFor(s.account)
	return err
}

// start starts the program and waits until it answers a signed request. Only a server with these
// keys can do so, so another process on the port cannot pass for it.
func (s *S3Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil && s.process.running() {
		return errors.New("it is running already")
	}
	process, err := s.watchdog.start(s.spec)
	if err != nil {
		return err
	}
	s.process, s.ended = process, false
	var last error
	err = wait.PollUntilContextTimeout(ctx, s3Poll, s3StartTimeout, true, func(ctx context.Context) (bool, error) {
		if !process.running() {
			return false, errors.New("it ended by itself")
		}
		_, last = s.client.ListBuckets(ctx)
		return last == nil, nil
	})
	if err != nil {
		s.ended = !process.running() // this error reports it, so Stop need not
		return fmt.Errorf("waiting for the first answer: %w (%w)\nthe end of its log:\n%s", err, errors.Join(last),
			tail(s.Log(), 10))
	}
	return nil
}

// Endpoint returns the URL to send requests to.
func (s *S3Server) Endpoint() string { return "http://" + s.address() }

// Account returns the root account, which has access to everything.
func (s *S3Server) Account() S3Account { return s.account }

// Program returns the name of the server program: versitygw, weed (SeaweedFS) or minio.
func (s *S3Server) Program() string { return s.program.name }

// Log returns the path of the server's log. versitygw writes one line for each request, and no key.
func (s *S3Server) Log() string { return s.folder(s.program.name + ".log") }

func (s *S3Server) address() string           { return fmt.Sprintf("127.0.0.1:%d", s.ports[0]) }
func (s *S3Server) folder(name string) string { return filepath.Join(s.dir, name) }
func (s *S3Server) data() string              { return s.folder("data") }

// Client returns a client of the root account. It does not retry, and leaves no connection open.
func (s *S3Server) Client() *minio.Client { return s.client }

// ClientFor is like Client, for another account.
func (s *S3Server) ClientFor(account S3Account) (*minio.Client, error) {
	client, err := minio.New(s.address(), &minio.Options{
		Creds:        credentials.NewStaticV4(account.AccessKey, account.SecretKey, account.SessionToken),
		Region:       S3Region,
		BucketLookup: minio.BucketLookupPath,
		MaxRetries:   1,
		Transport:    &http.Transport{DisableKeepAlives: true},
	})
	if err != nil {
		return nil, fmt.Errorf("creating an S3 client: %w", err)
	}
	return client, nil
}

// S3Role is the general role of an account. Without a bucket policy, no account has access to a
// bucket of another account.
type S3Role string

// The roles have the names that versitygw uses.
const (
	S3RoleUser     S3Role = "user"     // may not create buckets
	S3RoleUserPlus S3Role = "userplus" // may create buckets; only versitygw supports this role
)

// AddAccount creates an account with new keys. It returns an error if the server does not support
// the role.
func (s *S3Server) AddAccount(ctx context.Context, role S3Role) (S3Account, error) {
	account, err := s.program.add(ctx, s, role)
	if err != nil {
		return S3Account{}, fmt.Errorf("adding an account to the S3 server: %w", err)
	}
	return account, nil
}

// newS3Account returns new keys, as long as those of AWS.
func newS3Account() S3Account {
	return S3Account{AccessKey: rand.Text()[:20], SecretKey: (rand.Text() + rand.Text())[:40]}
}

// Kill sends SIGKILL and waits until the process has exited. Connections are refused from then on.
// The data is kept.
func (s *S3Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = s.ended || s.process.running()
	s.process.kill()
}

// Restart starts the server again after it has exited, with the same port, accounts and data, and
// returns when it answers. It returns an error if the server still runs.
func (s *S3Server) Restart(ctx context.Context) error {
	if err := s.start(ctx); err != nil {
		return fmt.Errorf("restarting the S3 server: %w", err)
	}
	return nil
}

// Stop stops the server and removes its folder. It is idempotent. It returns an error if the server
// exited on its own, because tests that relied on it proved nothing.
func (s *S3Server) Stop() error {
	s.stop.Do(func() {
		var err error
		if process := s.current(); process != nil {
			if !process.running() && !s.ended {
				err = fmt.Errorf("stopping the S3 server: it ended by itself (%v):\n%s", process.state, tail(s.Log(), 10))
			}
			// It keeps nothing that an orderly stop would save.
			process.kill()
		}
		s.stopErr = errors.Join(err, s.removeSockets(), s.watchdog.release())
	})
	return s.stopErr
}

// removeSockets removes what a killed server leaves outside its folder.
func (s *S3Server) removeSockets() error {
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
