// SPDX-License-Identifier: Apache-2.0

package s3server

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

func start(t *testing.T) *Server {
	t.Helper()
	g := NewWithT(t)
	s, err := Start(t.Context(), Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(s.Stop()).To(Succeed()) })
	return s
}

// code returns the S3 error code of err.
func code(err error) string { return minio.ToErrorResponse(err).Code }

func TestServerHoldsBucketsAndObjects(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := start(t)
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

func TestServer_SeparatesAccounts(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := start(t)
	g.Expect(s.Client().MakeBucket(t.Context(), "taken", minio.MakeBucketOptions{})).To(Succeed())
	account, err := s.AddAccount(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	client, err := s.ClientFor(account)
	g.Expect(err).NotTo(HaveOccurred())
	_, err = client.GetBucketTagging(t.Context(), "taken")
	g.Expect(code(err)).To(Equal(minio.AccessDenied), "the bucket of another")
	g.Expect(code(client.MakeBucket(t.Context(), "new", minio.MakeBucketOptions{}))).To(Equal(minio.AccessDenied))
}

func TestServerRestartsWithItsData(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := start(t)
	endpoint := s.Endpoint()
	other, err := s.AddAccount(t.Context())
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

func TestServer_KeepsItsKeysSecret(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, other := start(t), start(t)
	g.Expect(s.Account()).NotTo(Equal(other.Account()))
	_, err := s.Client().ListBuckets(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	log, err := os.ReadFile(s.Log())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(log)).To(ContainSubstring("GET"), "requests are logged")
	args, err := exec.Command("ps", "-o", "args=", "-p", strconv.Itoa(s.Pid())).Output()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(args)).To(ContainSubstring(s.dir))
	for _, key := range []string{s.Account().AccessKey, s.Account().SecretKey} {
		g.Expect(string(log)).NotTo(ContainSubstring(key))
		g.Expect(string(args)).NotTo(ContainSubstring(key))
	}
}

func TestServerStop(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s, err := Start(t.Context(), Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Pause(t.Context())).To(Succeed())
	g.Expect(s.Stop()).To(Succeed(), "a paused one too")
	g.Expect(s.Stop()).To(Succeed(), "again")
	g.Expect(s.Running()).To(BeFalse())
	g.Expect(s.dir).NotTo(BeADirectory())

	t.Log("one that ended by itself is reported")
	s, err = Start(t.Context(), Options{WorkDir: t.TempDir()})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.Signal(os.Interrupt)).To(Succeed())
	g.Eventually(s.Done()).WithTimeout(startTimeout).Should(BeClosed())
	g.Expect(s.Stop()).To(MatchError(ContainSubstring("ended by itself")))
}

func TestStart_EndsWithItsContext(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	work := t.TempDir()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Start(ended, Options{WorkDir: work})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(filepath.Glob(filepath.Join(work, "*"))).To(BeEmpty())
}

func TestFind(t *testing.T) {
	g := NewWithT(t)
	own := filepath.Join(touch(t, t.TempDir(), "own"), "own")
	t.Setenv(variable, own)
	g.Expect(Find()).To(Equal(own))
	t.Setenv(variable, own+"-missing")
	_, err := Find()
	g.Expect(err).To(MatchError(ErrMissing), "nothing else is taken instead")
	g.Expect(err).To(MatchError(ContainSubstring("make s3server")))

	t.Setenv(variable, "")
	module := touch(t, t.TempDir(), "go.mod", "a/b/file")
	t.Chdir(filepath.Join(module, "a", "b"))
	_, err = Find()
	g.Expect(err).To(MatchError(ErrMissing))
	touch(t, module, built)
	g.Expect(Find()).To(BeARegularFile())
}

func TestProgramOf(t *testing.T) {
	g := NewWithT(t)
	for path, want := range map[string]string{
		"/a/versitygw": "versitygw", "/a/weed": "weed", "/a b/minio": "minio", "minio.RELEASE.2025-10-15": "minio",
	} {
		program, err := programOf(path)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(program.name).To(Equal(want))
	}
	_, err := programOf("/minio/server")
	g.Expect(err).To(MatchError(ContainSubstring("must begin with versitygw, weed (SeaweedFS) or minio")))
}

// What a server other than versitygw has on disk would pass for buckets.
func TestServer_ReadsNoDiskOfOthers(t *testing.T) {
	g := NewWithT(t)
	s := &Server{program: program{name: "weed"}, dir: t.TempDir()}
	touch(t, s.dir, "data/bucket/key")
	_, err := s.Buckets()
	g.Expect(err).To(MatchError(errors.ErrUnsupported))
	_, err = s.Objects("bucket")
	g.Expect(err).To(MatchError(errors.ErrUnsupported))
}

// touch makes empty files in a folder, which it returns.
func touch(t *testing.T, dir string, files ...string) string {
	t.Helper()
	for _, file := range files {
		path := filepath.Join(dir, file)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, nil, 0o755)).To(Succeed())
	}
	return dir
}
