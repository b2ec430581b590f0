// SPDX-License-Identifier: Apache-2.0

package s3server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/minio/minio-go/v7/pkg/credentials"
	"k8s.io/apimachinery/pkg/util/wait"
)

// program is what differs between the servers that Start can start.
type program struct {
	// name is the beginning of the file's name.
	name string
	// ports is the number of ports to listen on. The first one is S3's.
	ports int
	// folders are created before the start.
	folders []string
	// command returns the program's arguments and environment. Keys must not be arguments, because every
	// user of the machine can read those.
	command func(s *Server) (args, env []string)
	// prepare writes the files that it reads; optional.
	prepare func(s *Server) error
	// add adds an account that may do nothing.
	add func(ctx context.Context, s *Server) (Account, error)
	// leaves is a pattern of files outside the server's folder that a killed server leaves behind, with
	// %d for a port; optional.
	leaves string
}

// versity is the program whose buckets and objects are folders and files.
const versity = "versitygw"

var programs = []program{
	// Metadata are in files beside the data, so the file system needs no extended attributes.
	{name: versity, ports: 1, folders: []string{"data", "metadata", "versions", "accounts"},
		command: func(s *Server) (args, env []string) {
			return []string{"--port", s.address(), "--region", Region, "--iam-dir", s.folder("accounts"),
					"posix", "--sidecar", s.folder("metadata"), "--versioning-dir", s.folder("versions"), s.data()},
				[]string{"ROOT_ACCESS_KEY_ID=" + s.account.AccessKey, "ROOT_SECRET_ACCESS_KEY=" + s.account.SecretKey}
		},
		add: addVersityUser,
	},
	// SeaweedFS: a master, a volume server, a filer and a gateway for S3 in one process. The paths of some
	// sockets are in its code.
	{name: "weed", ports: 8, folders: []string{"data"}, command: weedCommand, add: addWeedIdentity,
		prepare: writeWeedIdentities, leaves: "/tmp/seaweedfs-*-grpc-%d.sock"},
	{name: "minio", ports: 1, folders: []string{"data"},
		command: func(s *Server) (args, env []string) {
			return []string{"server", "--address", s.address(), s.data()}, []string{"MINIO_BROWSER=off",
				"MINIO_ROOT_USER=" + s.account.AccessKey, "MINIO_ROOT_PASSWORD=" + s.account.SecretKey}
		},
		add: assumeMinIORole,
	},
}

// programOf returns the program that a file is.
func programOf(path string) (program, error) {
	for _, p := range programs {
		if strings.HasPrefix(filepath.Base(path), p.name) {
			return p, nil
		}
	}
	return program{}, fmt.Errorf("%s is no S3 server that can be started: the name of the file must begin with "+
		"versitygw, weed (SeaweedFS) or minio", path)
}

// addVersityUser adds an account of versitygw.
func addVersityUser(ctx context.Context, s *Server) (Account, error) {
	account := newAccount()
	cmd := exec.CommandContext(ctx, s.spec.Program, "admin", "create-user",
		"--access", account.AccessKey, "--secret", account.SecretKey, "--role", "user")
	cmd.Env = append(s.guard.Environ(), "ADMIN_ENDPOINT_URL="+s.Endpoint(), "ADMIN_REGION="+Region,
		"ADMIN_ACCESS_KEY_ID="+s.account.AccessKey, "ADMIN_SECRET_ACCESS_KEY="+s.account.SecretKey)
	if output, err := cmd.CombinedOutput(); err != nil {
		return Account{}, fmt.Errorf("running versitygw admin: %w\n%s", err, output)
	}
	return account, nil
}

// weedCommand returns the arguments of `weed server`. A bucket's first object makes one volume of
// data instead of seven, and as many buckets as tests need have one.
func weedCommand(s *Server) (args, env []string) {
	args = []string{"server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-dir=" + s.data(), "-master.telemetry=false",
		"-volume.max=10000", "-s3", "-s3.config=" + s.folder("identities.json"), "-s3.port.iceberg=0", "-s3.port.lance=0",
		"-s3.localSocket=" + s.folder("s3.sock"), "-filer.localSocket=" + s.folder("filer.sock")}
	for i, port := range []string{"s3.port", "s3.port.grpc", "master.port", "master.port.grpc", "volume.port",
		"volume.port.grpc", "filer.port", "filer.port.grpc"} {
		args = append(args, "-"+port+"="+strconv.Itoa(s.ports[i]))
	}
	return args, []string{"WEED_MASTER_VOLUME_GROWTH_COPY_1=1"}
}

type weedIdentity struct {
	Name        string           `json:"name"`
	Credentials []weedCredential `json:"credentials"`
	Actions     []string         `json:"actions"`
}

type weedCredential struct {
	AccessKey string `json:"accessKey"`
	SecretKey string `json:"secretKey"`
}

// writeWeedIdentities writes the accounts that SeaweedFS reads when it starts and at SIGHUP. Only the
// first one has permissions.
func writeWeedIdentities(s *Server) error {
	all := []weedIdentity{{"root", []weedCredential{{s.account.AccessKey, s.account.SecretKey}}, []string{"Admin"}}}
	for _, a := range s.others {
		all = append(all, weedIdentity{a.AccessKey, []weedCredential{{a.AccessKey, a.SecretKey}}, nil})
	}
	text, err := json.Marshal(map[string]any{"identities": all})
	if err != nil {
		return fmt.Errorf("encoding the identities: %w", err)
	}
	if err := os.WriteFile(s.folder("identities.json"), text, 0o600); err != nil {
		return fmt.Errorf("writing the identities: %w", err)
	}
	return nil
}

// addWeedIdentity returns when the server knows the account, whose list of buckets is empty then.
func addWeedIdentity(ctx context.Context, s *Server) (Account, error) {
	account := newAccount()
	client, err := s.ClientFor(account)
	if err != nil {
		return Account{}, err
	}
	s.mu.Lock()
	s.others = append(s.others, account)
	err = writeWeedIdentities(s)
	s.mu.Unlock()
	if err == nil {
		err = s.Signal(syscall.SIGHUP)
	}
	if err != nil {
		return Account{}, err
	}
	accepted := func(ctx context.Context) (bool, error) {
		_, err := client.ListBuckets(ctx)
		return err == nil, nil
	}
	return account, wait.PollUntilContextTimeout(ctx, poll, startTimeout, true, accepted)
}

// assumeMinIORole returns keys for a session of the root account whose policy permits nothing. Accounts of MinIO are
// added with a protocol of its own.
func assumeMinIORole(_ context.Context, s *Server) (Account, error) {
	session, err := credentials.NewSTSAssumeRole(s.Endpoint(), credentials.STSAssumeRoleOptions{
		AccessKey: s.account.AccessKey, SecretKey: s.account.SecretKey, Location: Region,
		Policy: `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":["s3:*"],"Resource":["arn:aws:s3:::*"]}]}`,
	})
	if err != nil {
		return Account{}, fmt.Errorf("preparing a session: %w", err)
	}
	keys, err := session.GetWithContext(&credentials.CredContext{Client: &http.Client{Timeout: startTimeout}})
	if err != nil {
		return Account{}, fmt.Errorf("beginning a session: %w", err)
	}
	return Account{keys.AccessKeyID, keys.SecretAccessKey, keys.SessionToken}, nil
}
