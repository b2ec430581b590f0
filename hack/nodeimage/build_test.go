// SPDX-License-Identifier: Apache-2.0

// Package nodeimage has the tests of build.sh. They replace docker and go by fake programs.
package nodeimage

import (
	"archive/tar"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// fakeDocker has the image of the root file system, and a node image with $INPUTS as the label unless that is empty. It
// stores what it receives in $DIR.
const fakeDocker = `#!/usr/bin/env bash
case "$1 $2" in
"version --format") [[ $3 == *Os* ]] && echo linux || echo "$SERVER" ;;
"image inspect") [[ ${!#} == leasehold-node-root:* || -n $INPUTS ]] && echo "$INPUTS" ;;
"cp -") cat >"$DIR/stage.tar" ;;
"import "*) echo "$*: $(tar -t)" >>"$DIR/parts" && echo id ;;
"exec "*) cat >/dev/null && echo "$*" >"$DIR/exec" ;;
"run "* | "create "*) echo "a-container-$1" ;;
"commit "* | "rm "* | "image rm") echo "$*" >>"$DIR/$1" ;;
esac
`

// fakeGo compiles a kubeadm that prints the images it requires, and fails for the program named $BROKEN.
const fakeGo = `#!/usr/bin/env bash
[[ $1 == build ]] || exec "$REAL" "$@"
[[ $8 != *"$BROKEN" ]] || { echo "broken on purpose" >&2; exit 1; }
mkdir -p "$(dirname "$7")" && printf '#!/bin/sh\necho "$WANTED"\n' >"$7" && chmod 755 "$7"
`

const wanted = "registry.test/kube-apiserver:v1 registry.test/kube-controller-manager:v1 registry.test/kube-scheduler:v1 " +
	"registry.test/kube-proxy:v1 registry.test/coredns/coredns:v1 registry.test:5000/pause:3.10.2 registry.test/etcd:3.6.8-0"

// build runs the build.sh of a folder with fakes that read variables. dir has the files of the fakes.
func build(t *testing.T, folder string, variables ...string) (stdout, stderr, dir string) {
	t.Helper()
	g := NewWithT(t)
	dir = t.TempDir()
	for name, text := range map[string]string{"docker": fakeDocker, "go": fakeGo} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755)).To(Succeed())
	}
	goCommand, err := exec.LookPath("go")
	g.Expect(err).NotTo(HaveOccurred())
	cmd := exec.CommandContext(t.Context(), folder+"/build.sh", filepath.Join(dir, "out"))
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "GO=go", "REAL="+goCommand, "DIR="+dir, "DOCKER_HOST=",
		"SERVER="+runtime.GOARCH, "WANTED="+wanted, "BROKEN=nothing", "INPUTS=")
	cmd.Env = append(cmd.Env, variables...)
	var out, log strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &log
	if err := cmd.Run(); (err == nil) != (out.String() != "") {
		t.Errorf("it ends with %v and prints %q:\n%s", err, &out, &log)
	}
	left, err := filepath.Glob(filepath.Join(dir, "out", "*-??????"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(left).To(BeEmpty(), "it leaves folders behind")
	return out.String(), log.String(), dir
}

func TestSlowNodeImage(t *testing.T) {
	g := NewWithT(t)
	image, log, dir := build(t, ".")
	g.Expect(image).To(MatchRegexp(`^leasehold-node:v1\.\d+\.\d+\n$`), log)
	inputs := built.FindStringSubmatch(log)
	g.Expect(inputs).NotTo(BeNil(), log)
	parts, err := os.ReadFile(filepath.Join(dir, "parts"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(strings.Count(string(parts), "\n")).To(Equal(6), "all but kube-proxy are single programs")
	g.Expect(string(parts)).To(MatchRegexp(`ENTRYPOINT \["/usr/local/bin/etcd"\] .* leasehold-node-part-etcd: usr/local/bin/etcd\n`))
	g.Expect(os.ReadFile(filepath.Join(dir, "exec"))).To(ContainSubstring("REFERENCES=" + wanted))
	for file, want := range map[string]string{
		"commit": "--change ENTRYPOINT [\"/usr/local/bin/entrypoint\", \"/sbin/init\"] --change CMD [] a-container-run " + strings.TrimSpace(image),
		"rm":     "--force --volumes a-container-create a-container-run",
		"image":  "rm --force leasehold-node-part-kube-apiserver ",
	} {
		g.Expect(os.ReadFile(filepath.Join(dir, file))).To(ContainSubstring(want))
	}

	files := map[string]string{}
	stage, err := os.Open(filepath.Join(dir, "stage.tar"))
	g.Expect(err).NotTo(HaveOccurred())
	defer stage.Close()
	for archive := tar.NewReader(stage); ; {
		header, err := archive.Next()
		if err != nil {
			break
		}
		text := make([]byte, header.Size)
		_, _ = archive.Read(text)
		mode := int64(0o644)
		if filepath.Base(filepath.Dir(header.Name)) == "bin" {
			mode = 0o755
		}
		g.Expect(header.Mode).To(Equal(mode), header.Name)
		g.Expect(header.Uid).To(BeZero())
		files[header.Name] = string(text)
	}
	for name, want := range map[string]string{
		"./usr/local/bin/entrypoint":            "#!/bin/bash",
		"./usr/bin/kubelet":                     "#!/bin/sh",
		"./opt/cni/bin/portmap":                 "#!/bin/sh",
		"./kind/version":                        "v1.",
		"./etc/default/kubelet":                 "containerd.service --fail-cgroupv1=false\n",
		"./kind/manifests/default-cni.yaml":     "image: registry.test/kube-proxy:v1\n",
		"./etc/containerd/cni.template":         "{{.PodCIDR}}",
		"./etc/containerd/config.toml":          "\n  sandbox_image = \"registry.test:5000/pause:3.10.2\"\n",
		"./kind/manifests/default-storage.yaml": "kind: StorageClass",
	} {
		g.Expect(files[name]).To(ContainSubstring(want), name)
	}
	g.Expect(files["./etc/containerd/config.toml"]).To(And(ContainSubstring("\n  restrict_oom_score_adj = true\n"),
		HaveSuffix("\n[plugins.\"io.containerd.grpc.v1.cri\".cni]\n  conf_template = \"/etc/containerd/cni.template\"\n")))
	for _, plugin := range regexp.MustCompile(`"type": "([a-z-]+)"`).FindAllStringSubmatch(files["./etc/containerd/cni.template"], -1) {
		g.Expect(files).To(HaveKey("./opt/cni/bin/" + plugin[1]))
	}

	// An existing image is built again only if its inputs have changed.
	again, log, _ := build(t, ".", "INPUTS="+inputs[1], "BROKEN=pause")
	g.Expect(again).To(Equal(image), log)
	g.Expect(log).To(ContainSubstring("up to date"))
	_, log, _ = build(t, ".", "INPUTS=others", "BROKEN=pause")
	g.Expect(log).To(ContainSubstring("compiling pause\nbroken on purpose"))
}

var built = regexp.MustCompile(`building \S+ of ([0-9a-f]{64}) `)

// Each change of an input changes the hash. A test file is no input.
func TestSlowInputs(t *testing.T) {
	g, copied := NewWithT(t), t.TempDir()
	for _, name := range []string{"nodeimage", "needs-docker.sh", "tools/go.mod", "controlplane/go.mod", "controlplane/go.sum"} {
		source, to := filepath.Join("..", name), filepath.Join(copied, name)
		g.Expect(os.MkdirAll(filepath.Dir(to), 0o755)).To(Succeed())
		g.Expect(exec.CommandContext(t.Context(), "cp", "-R", source, to).Run()).To(Succeed())
	}
	seen := map[string]bool{}
	for n, change := range []string{"true", "echo >> files/cni.template", "echo > files/another", "echo >> build.sh",
		"sed -i 's,kind v0,kind v1,' ../tools/go.mod", "echo >> ../controlplane/go.sum", "echo > another_test.go"} {
		command := exec.CommandContext(t.Context(), "bash", "-c", change)
		command.Dir = filepath.Join(copied, "nodeimage")
		g.Expect(command.Run()).To(Succeed())
		_, log, _ := build(t, command.Dir, "BROKEN=pause")
		inputs := built.FindStringSubmatch(log)
		g.Expect(inputs).NotTo(BeNil(), log)
		seen[inputs[1]] = true
		g.Expect(seen).To(HaveLen(min(n+1, 6)), "after %s; a test changes nothing", change)
	}
}

func TestSlowRefusals(t *testing.T) {
	for name, tc := range map[string]struct{ variable, want string }{
		"a daemon of another kind":    {"SERVER=s390x", "the Docker daemon is s390x and this machine is"},
		"an image that is unknown":    {"WANTED=" + wanted + " registry.test/new:v1", "kubeadm wants registry.test/new:v1, and nothing here builds it"},
		"an image that is not wanted": {"WANTED=" + strings.Replace(wanted, "registry.test/etcd:3.6.8-0", "", 1), "kubeadm does not want all images"},
	} {
		t.Run(name, func(t *testing.T) {
			out, log, _ := build(t, ".", tc.variable)
			if out != "" || !strings.Contains(log, tc.want) {
				t.Errorf("it prints %q and lacks %q:\n%s", out, tc.want, log)
			}
		})
	}
}
