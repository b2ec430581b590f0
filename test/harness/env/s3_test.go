package env

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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

	for want, wrong := range map[string]S3Account{
		"InvalidAccessKeyId":    {AccessKey: newS3Account().AccessKey, SecretKey: s.Account().SecretKey},
		"SignatureDoesNotMatch": {AccessKey: s.Account().AccessKey, SecretKey: newS3Account().SecretKey},
	} {
		client, err := s.ClientFor(wrong)
		g.Expect(err).NotTo(HaveOccurred())
		_, err = client.ListBuckets(t.Context())
		g.Expect(code(err)).To(Equal(want))
	}
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

func TestS3ServerPausedAcceptsAndNeverAnswers(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := startS3(t)
	g.Expect(s.Pause(t.Context())).To(Succeed())
	g.Expect(s.Running()).To(BeTrue())
	// Refused would be another error than the end of the context.
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := s.Client().ListBuckets(short)
	g.Expect(err).To(MatchError(context.DeadlineExceeded))

	answered := make(chan error, 1)
	go func() {
		_, err := s.Client().ListBuckets(t.Context())
		answered <- err
	}()
	g.Consistently(answered, 200*time.Millisecond).ShouldNot(Receive())
	g.Expect(s.Resume()).To(Succeed())
	g.Eventually(answered, eventually).Should(Receive(BeNil()), "the same request after Resume")
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
	g.Expect(string(args)).To(ContainSubstring(s.Dir()))
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
	g.Expect(s.Dir()).NotTo(BeADirectory())

	t.Log("one that ended by itself is told of")
	s, err = StartS3(t.Context(), S3Options{WorkDir: t.TempDir(), Keep: true})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(s.current().signal(os.Interrupt)).To(Succeed())
	g.Eventually(s.Running, eventually).Should(BeFalse())
	g.Expect(s.Stop()).To(MatchError(ContainSubstring("ended by itself")))
	g.Expect(s.Log()).To(BeARegularFile(), "Keep was set")
}

func TestStartS3_ReportsErrors(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	s := startS3(t)
	work := t.TempDir()
	_, err := StartS3(t.Context(), S3Options{Port: s.port, WorkDir: work})
	g.Expect(err).To(MatchError(ContainSubstring("ended by itself")))
	g.Expect(err).To(MatchError(ContainSubstring("address already in use")), "the end of its log")
	g.Expect(filepath.Glob(filepath.Join(work, "*"))).To(BeEmpty())

	t.Log("the context ends first")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = StartS3(ended, S3Options{WorkDir: work})
	g.Expect(err).To(MatchError(context.Canceled))
	g.Expect(filepath.Glob(filepath.Join(work, "*"))).To(BeEmpty())
}

func TestFindS3Server(t *testing.T) {
	g := NewWithT(t)
	own := filepath.Join(t.TempDir(), "own")
	g.Expect(os.WriteFile(own, nil, 0o700)).To(Succeed())
	t.Setenv(s3Variable, own)
	g.Expect(FindS3Server()).To(Equal(own))
	t.Setenv(s3Variable, own+"-missing")
	_, err := FindS3Server()
	g.Expect(err).To(MatchError(ErrNoS3Server), "nothing else is taken instead")
	g.Expect(err).To(MatchError(ContainSubstring("make s3server")))

	t.Setenv(s3Variable, "")
	module := t.TempDir()
	built := filepath.Join(module, builtS3)
	g.Expect(os.MkdirAll(filepath.Dir(built), 0o755)).To(Succeed())
	g.Expect(os.WriteFile(filepath.Join(module, "go.mod"), nil, 0o600)).To(Succeed())
	inside := filepath.Join(module, "a", "b")
	g.Expect(os.MkdirAll(inside, 0o755)).To(Succeed())
	t.Chdir(inside)
	_, err = FindS3Server()
	g.Expect(err).To(MatchError(ErrNoS3Server))
	g.Expect(os.WriteFile(built, nil, 0o700)).To(Succeed())
	g.Expect(FindS3Server()).To(BeARegularFile())
}

// TestNoS3ServerIsLeftBehind kills the process that holds one.
func TestNoS3ServerIsLeftBehind(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	cmd, has := startHolder(t, roleS3)
	g.Expect(has.Pids).To(HaveLen(1))
	g.Expect(alive(has.Pids[0])).To(BeTrue())
	g.Expect(cmd.Process.Kill()).To(Succeed())
	g.Expect(cmd.Wait()).NotTo(Succeed())
	g.Eventually(alive, eventually).WithArguments(has.Pids[0]).Should(BeFalse())
	g.Eventually(has.Dir, eventually).ShouldNot(BeADirectory())
}

// holdS3 starts an S3 server, prints its folder and its pid, and waits.
func holdS3() error {
	//nolint:forbidigo // a program of its own, not a test
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	s, err := StartS3(ctx, S3Options{})
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(held{Dir: s.Dir(), Pids: []int{s.current().pid()}}); err != nil {
		return err
	}
	<-ctx.Done()
	return s.Stop()
}
