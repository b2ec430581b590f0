package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"leasehold.dev/test/harness/controlplane"
)

// fakeDocker answers as a daemon that has the images named in $IMAGES, each with
// $INPUTS as the label, and notes each command in $CALLS.
const fakeDocker = `#!/bin/sh
echo "$1" >> "$CALLS"
case $1 in
version) [ -n "$SERVER" ] || { echo "cannot connect" >&2; exit 1; }; echo "$SERVER" ;;
image) for last; do :; done; case " $IMAGES " in *" $last "*) echo "$INPUTS" ;; *) exit 1 ;; esac ;;
*) echo "not expected: $*" >&2; exit 1 ;;
esac
`

// setup returns options with a fake docker and a go command that always fails.
func setup(t *testing.T) (opts options, calls func() string) {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "docker", fakeDocker)
	write(t, dir, "go", "#!/bin/sh\necho broken on purpose >&2\nexit 1\n")
	t.Setenv("CALLS", filepath.Join(dir, "calls"))
	t.Setenv("SERVER", "linux/"+runtime.GOARCH)
	t.Setenv("IMAGES", "")
	opts = options{out: filepath.Join(dir, "out"), goCmd: filepath.Join(dir, "go"), docker: filepath.Join(dir, "docker")}
	return opts, func() string {
		text, err := os.ReadFile(filepath.Join(dir, "calls"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(strings.Fields(string(text)), " ")
	}
}

// write makes a file that can be executed, and the folders above it.
func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// present makes the fake docker have the image that would be built now.
func present(t *testing.T) string {
	t.Helper()
	inputs, err := hashInputs(".")
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile("kubernetes/go.mod")
	if err != nil {
		t.Fatal(err)
	}
	version, err := controlplane.Version(mod, kubernetesModule)
	if err != nil {
		t.Fatal(err)
	}
	image := "leasehold-node:" + version
	t.Setenv("IMAGES", image+" "+rootImage())
	t.Setenv("INPUTS", inputs)
	return image
}

func TestNothingIsBuiltWhenTheImageIsThere(t *testing.T) {
	opts, calls := setup(t)
	want := present(t)
	var log bytes.Buffer
	image, err := run(t.Context(), opts, &log)
	if err != nil || image != want {
		t.Fatalf("got image %q, want %q, and error %v", image, want, err)
	}
	if got := calls(); got != "version image" {
		t.Errorf("docker was asked for %q, want only its version and the image", got)
	}
	if !strings.Contains(log.String(), "up to date") {
		t.Errorf("said %q", log.String())
	}
}

func TestAnImageOfOtherInputsIsBuiltAnew(t *testing.T) {
	opts, _ := setup(t)
	present(t)
	t.Setenv("INPUTS", "others")
	_, err := run(t.Context(), opts, &bytes.Buffer{})
	if err == nil || !strings.Contains(err.Error(), "building pause") ||
		!strings.Contains(err.Error(), "broken on purpose") {
		t.Errorf("error %v does not say what was built and how it failed", err)
	}
}

func TestARunWaitsForTheOther(t *testing.T) {
	opts, _ := setup(t)
	present(t)
	unlock, err := controlplane.Lock(t.Context(), opts.out, "node-image", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	log := announced{said: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := run(t.Context(), opts, &log)
		done <- err
	}()
	<-log.said
	unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if !strings.Contains(log.String(), "waiting for it") {
		t.Errorf("said %q", log.String())
	}
}

func TestAnInterruptEndsTheWait(t *testing.T) {
	opts, _ := setup(t)
	present(t)
	unlock, err := controlplane.Lock(t.Context(), opts.out, "node-image", &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	log := announced{said: make(chan struct{})}
	done := make(chan error, 1)
	go func() {
		_, err := run(ctx, opts, &log)
		done <- err
	}()
	<-log.said
	cancel()
	if err := <-done; err == nil {
		t.Error("the run that was interrupted gave no error")
	}
}

// announced is a log that closes a channel after its first line.
type announced struct {
	bytes.Buffer
	once sync.Once
	said chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	defer a.once.Do(func() { close(a.said) })
	return a.Buffer.Write(p)
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	here := "linux/" + runtime.GOARCH
	for name, test := range map[string]struct {
		server, missing, want string
	}{
		"no docker":            {server: here, missing: "docker", want: "apt-get install docker.io"},
		"no daemon":            {server: "", want: "is dockerd running"},
		"daemon of other kind": {server: "linux/s390x", want: "the Docker daemon is linux/s390x"},
		"no output folder":     {server: here, missing: "out", want: "-out is required"},
	} {
		t.Run(name, func(t *testing.T) {
			opts, _ := setup(t)
			t.Setenv("SERVER", test.server)
			switch test.missing {
			case "docker":
				opts.docker += "-that-is-not-there"
			case "out":
				opts.out = ""
			}
			_, err := run(t.Context(), opts, &bytes.Buffer{})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v does not say %q", err, test.want)
			}
		})
	}
}

func TestRootIsNeededOnlyForTheRootFileSystem(t *testing.T) {
	opts, _ := setup(t)
	p := &plan{options: opts, root: rootImage(), sudo: []string{"sudo-that-is-not-there"}}
	if err := p.rootPossible(t.Context()); err == nil || !strings.Contains(err.Error(), "run this as root") {
		t.Errorf("error %v does not say that root is needed", err)
	}
	t.Setenv("IMAGES", rootImage())
	if err := p.rootPossible(t.Context()); err != nil {
		t.Errorf("the root file system is there and still: %v", err)
	}
}
