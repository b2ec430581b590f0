// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/minio/minio-go/v7"
	. "github.com/onsi/gomega"
)

func startS3(t *testing.T) *S3Server {
	t.Helper()
	g := NewWithT(t)
	s, err := StartS3(t.Context(), S3Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(s.Stop()).To(Succeed()) })
	return s
}

// code returns the S3 error code of err.
func code(err error) string { return minio.ToErrorResponse(err).Code }

func TestS3ServerHoldsBucketsAndObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := startS3(t)
	g.Expect(s.Buckets()).To(BeEmpty())
	_, err := s.Objects("first")
	g.Expect(err).To(MatchError(fs.ErrNotExist))

	g.Expect(s.Client().MakeBucket(t.Context(), "first", minio.MakeBucketOptions{})).To(Succeed())
	g.Expect(s.Client().MakeBucket(t.Context(), "second", minio.MakeBucketOptions{})).To(Succeed())
	for _, key := range []string{"a/b", "c", "a/b"} {
		_, err := s.Client().PutObject(t.Context(), "first", key, strings.NewReader("x"), 1, minio.PutObjectOptions{})
		g.Expect(err).NotTo(HaveOccurred())
	}
	core := minio.Core{Client: s.Client()}
	_, err = core.NewMultipartUpload(t.Context(), "first", "unfinished", minio.PutObjectOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Buckets()).To(Equal([]string{"first", "second"}))
	g.Expect(s.Objects("first")).To(Equal([]string{"a/b", "c"}))
	g.Expect(s.Objects("second")).To(BeEmpty())

	g.Expect(code(s.Client().RemoveBucket(t.Context(), "first"))).To(Equal(minio.BucketNotEmpty))
	g.Expect(s.Client().RemoveBucket(t.Context(), "second")).To(Succeed())
	g.Expect(s.Buckets()).To(Equal([]string{"first"}))

	t.Log("old versions stay")
	g.Expect(s.Client().MakeBucket(t.Context(), "versioned", minio.MakeBucketOptions{})).To(Succeed())
	g.Expect(s.Client().EnableVersioning(t.Context(), "versioned")).To(Succeed())
	_, err = s.Client().PutObject(t.Context(), "versioned", "key", strings.NewReader("x"), 1, minio.PutObjectOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Client().RemoveObject(t.Context(), "versioned", "key", minio.RemoveObjectOptions{})).To(Succeed())
	g.Expect(code(s.Client().RemoveBucket(t.Context(), "versioned"))).To(Equal(minio.BucketNotEmpty))
}

func TestS3Server_SeparatesAccounts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := startS3(t)
	g.Expect(s.Client().MakeBucket(t.Context(), "taken", minio.MakeBucketOptions{})).To(Succeed())
	for role, mayCreate := range map[S3Role]bool{S3RoleUser: false, S3RoleUserPlus: true} {
		account, err := s.AddAccount(t.Context(), role)
		g.Expect(err).NotTo(HaveOccurred())
		client, err := s.ClientFor(account)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.GetBucketTagging(t.Context(), "taken")
		g.Expect(code(err)).To(Equal(minio.AccessDenied), "%s looks at the bucket of another", role)
		err = client.MakeBucket(t.Context(), "of-"+string(role), minio.MakeBucketOptions{})
		if !mayCreate {
			g.Expect(code(err)).To(Equal(minio.AccessDenied), "%s creates a bucket", role)
			continue
		}
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(code(client.MakeBucket(t.Context(), "taken", minio.MakeBucketOptions{}))).
			To(Equal(minio.BucketAlreadyExists))
	}
	g.Expect(s.Buckets()).To(Equal([]string{"of-userplus", "taken"}))
}

func TestS3ServerRestartsWithItsData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := startS3(t)
	endpoint := s.Endpoint()
	other, err := s.AddAccount(t.Context(), S3RoleUserPlus)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Client().MakeBucket(t.Context(), "kept", minio.MakeBucketOptions{})).To(Succeed())
	g.Expect(s.Restart(t.Context())).To(MatchError(ContainSubstring("running already")))

	s.Kill()
	g.Expect(s.Running()).To(BeFalse())
	_, err = s.Client().ListBuckets(t.Context())
	g.Expect(err).To(MatchError(syscall.ECONNREFUSED))
	g.Expect(s.Buckets()).To(Equal([]string{"kept"}), "on disk while nothing runs")

	g.Expect(s.Restart(t.Context())).To(Succeed())
	g.Expect(s.Endpoint()).To(Equal(endpoint))
	g.Expect(s.Client().BucketExists(t.Context(), "kept")).To(BeTrue())
	client, err := s.ClientFor(other)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(client.ListBuckets(t.Context())).To(BeEmpty(), "an account is still known and owns nothing")
}

func TestS3Server_KeepsItsKeysSecret(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, other := startS3(t), startS3(t)
	g.Expect(s.Account()).NotTo(Equal(other.Account()))
	_, err := s.Client().ListBuckets(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	log, err := os.ReadFile(s.Log())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(log)).To(ContainSubstring("GET"), "requests are logged")
	args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(s.current().pid())).Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(args)).To(ContainSubstring(s.dir))
	for _, key := range []string{s.Account().AccessKey, s.Account().SecretKey} {
		g.Expect(string(log)).NotTo(ContainSubstring(key))
		g.Expect(string(args)).NotTo(ContainSubstring(key))
	}
}

func TestS3ServerStop(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, err := StartS3(t.Context(), S3Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Pause(t.Context())).To(Succeed())
	g.Expect(s.Stop()).To(Succeed(), "a paused one too")
	g.Expect(s.Stop()).To(Succeed(), "again")
	g.Expect(s.Running()).To(BeFalse())
	g.Expect(s.dir).NotTo(BeADirectory())

	t.Log("one that ended by itself is reported")
	s, err = StartS3(t.Context(), S3Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.current().signal(os.Interrupt)).To(Succeed())
	g.Eventually(s.Running, eventually).Should(BeFalse())
	g.Expect(s.Stop()).To(MatchError(ContainSubstring("ended by itself")))
}

func TestStartS3_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	work := t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := StartS3(ended, S3Options{WorkDir: work})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(filepath.Glob(filepath.Join(work, "*"))).To(BeEmpty())
}

func TestFindS3Server(t *testing.T) {
	g := NewWithT(t)
	own := filepath.Join(touch(t, t.TempDir(), "own"), "own")
	t.Setenv(s3Variable, own)
	g.Expect(FindS3Server()).To(Equal(own))
	t.Setenv(s3Variable, own+"-missing")
	_, err := FindS3Server()
	g.Expect(err).To(MatchError(ErrNoS3Server), "nothing else is taken instead")
	g.Expect(err).To(MatchError(ContainSubstring("make s3server")))

	t.Setenv(s3Variable, "")
	module := touch(t, t.TempDir(), "go.mod", "a/b/file")
	t.Chdir(filepath.Join(module, "a", "b"))
	_, err = FindS3Server()
	g.Expect(err).To(MatchError(ErrNoS3Server))
	touch(t, module, builtS3)
	g.Expect(FindS3Server()).To(BeARegularFile())
}

func TestS3ProgramOf(t *testing.T) {
	g := NewWithT(t)
	for path, want := range map[string]string{
		"/a/versitygw": "versitygw", "/a/weed": "weed", "/a b/minio": "minio", "minio.RELEASE.2025-10-15": "minio",
	} {
		program, err := s3ProgramOf(path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(program.name).To(Equal(want))
	}
	_, err := s3ProgramOf("/minio/server")
	g.Expect(err).To(MatchError(ContainSubstring("must begin with versitygw, weed (SeaweedFS) or minio")))
}

// What a server other than versitygw has on disk would pass for buckets.
func TestS3Server_ReadsNoDiskOfOthers(t *testing.T) {
	g := NewWithT(t)
	s := &S3Server{program: s3Program{name: "weed"}, dir: t.TempDir()}
	touch(t, s.dir, "data/bucket/key")
	_, err := s.Buckets()
	g.Expect(err).To(MatchError(errors.ErrUnsupported))
	_, err = s.Objects("bucket")
	g.Expect(err).To(MatchError(errors.ErrUnsupported))
}
