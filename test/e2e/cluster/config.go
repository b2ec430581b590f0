// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"
	"sigs.k8s.io/yaml"

	"leasehold.dev/test/harness/env"
)

// Paths on the nodes of the API server's audit configuration.
const (
	policyPath = "/etc/kubernetes/audit/policy.yaml"
	auditDir   = "/var/log/kubernetes/audit"
	auditPath  = auditDir + "/audit.log"
)

// apiServerPatch enables the audit log. The size, in megabytes, is large because a rotation would
// lose lines.
const apiServerPatch = `kind: ClusterConfiguration
apiServer:
  extraArgs:
  - {name: audit-policy-file, value: ` + policyPath + `}
  - {name: audit-log-path, value: ` + auditPath + `}
  - {name: audit-log-maxsize, value: "4096"}
  extraVolumes:
  - {name: audit-policy, hostPath: /etc/kubernetes/audit, mountPath: /etc/kubernetes/audit,
      readOnly: true, pathType: DirectoryOrCreate}
  - {name: audit-log, hostPath: ` + auditDir + `, mountPath: ` + auditDir +
	`, readOnly: false, pathType: DirectoryOrCreate}
`

// writeConfig writes kind's configuration and the audit policy that it mounts.
func (c *Cluster) writeConfig() (path string, err error) {
	dir, err := filepath.Abs(c.options.Dir)
	if err != nil {
		return "", fmt.Errorf("resolving %s: %w", c.options.Dir, err)
	}
	policy := filepath.Join(dir, "audit-policy.yaml")
	text, err := json.MarshalIndent(auditPolicy(c.options.AuditUsers, c.options.AuditGroups), "", "  ")
	if err != nil {
		return "", fmt.Errorf("encoding the audit policy: %w", err)
	}
	if err := os.WriteFile(policy, text, 0o644); err != nil {
		return "", fmt.Errorf("writing the audit policy: %w", err)
	}
	config := v1alpha4.Cluster{
		TypeMeta:             v1alpha4.TypeMeta{APIVersion: "kind.x-k8s.io/v1alpha4", Kind: "Cluster"},
		KubeadmConfigPatches: []string{apiServerPatch},
		Nodes: []v1alpha4.Node{{
			Role:        v1alpha4.ControlPlaneRole,
			ExtraMounts: []v1alpha4.Mount{{HostPath: policy, ContainerPath: policyPath, Readonly: true}},
		}},
	}
	for range c.options.Workers {
		config.Nodes = append(config.Nodes, v1alpha4.Node{Role: v1alpha4.WorkerRole})
	}
	if text, err = yaml.Marshal(config); err != nil {
		return "", fmt.Errorf("encoding kind's configuration: %w", err)
	}
	path = filepath.Join(dir, "kind.yaml")
	if err := os.WriteFile(path, text, 0o644); err != nil {
		return "", fmt.Errorf("writing kind's configuration: %w", err)
	}
	return path, nil
}

// auditPolicy is env's policy for the groups, with full records of the users' writes. It omits the
// frequent status reports of nodes.
func auditPolicy(users, groups []string) *auditv1.Policy {
	policy := env.AuditPolicy(groups)
	own := []auditv1.PolicyRule{{Level: auditv1.LevelNone, UserGroups: []string{"system:nodes"}}}
	if len(users) > 0 {
		own = append(own, auditv1.PolicyRule{
			Level: auditv1.LevelRequestResponse, Users: users, Verbs: []string{"create", "update", "patch"},
			Resources: []auditv1.GroupResources{
				{Group: "", Resources: []string{"configmaps", "services"}},
				{Group: "apps"},
			},
		})
	}
	// The first matching rule applies, and none of these is about a Secret.
	policy.Rules = slices.Concat(own, policy.Rules)
	return policy
}
