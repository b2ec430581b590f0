// SPDX-License-Identifier: Apache-2.0

package env

import (
	"encoding/json"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/authentication/user"
)

// writes are the verbs that change something.
var writes = []string{"create", "update", "patch", "delete", "deletecollection"}

// AuditPolicy returns a policy that records writes to the given API groups, and to the built-in
// objects that operators commonly write, with request and response. It records all other requests
// with their metadata only, so the log never contains a token or the content of a Secret. It leaves
// out requests of the API server itself, reads of kube-controller-manager, and URLs that are not
// resources.
func AuditPolicy(groups []string) *auditv1.Policy {
	detailed := []auditv1.GroupResources{
		{Group: "", Resources: []string{"namespaces", "namespaces/*", "events"}},
		{Group: "events.k8s.io"},
		{Group: "coordination.k8s.io"},
		{Group: "rbac.authorization.k8s.io"},
	}
	for _, group := range groups {
		detailed = append(detailed, auditv1.GroupResources{Group: group})
	}
	return &auditv1.Policy{
		TypeMeta:          metav1.TypeMeta{APIVersion: auditv1.SchemeGroupVersion.String(), Kind: "Policy"},
		OmitStages:        []auditv1.Stage{auditv1.StageRequestReceived},
		OmitManagedFields: true,
		// The first rule that matches a request decides.
		Rules: []auditv1.PolicyRule{
			{Level: auditv1.LevelNone, Users: []string{user.APIServerUser}},
			{Level: auditv1.LevelNone, Users: []string{user.KubeControllerManager}, Verbs: []string{"get", "list", "watch"}},
			{Level: auditv1.LevelNone, NonResourceURLs: []string{"*"}},
			{Level: auditv1.LevelMetadata, Resources: []auditv1.GroupResources{
				{Group: "", Resources: []string{"secrets", "serviceaccounts/token"}},
				{Group: "authentication.k8s.io"},
			}},
			{Level: auditv1.LevelRequestResponse, Verbs: writes, Resources: detailed},
			{Level: auditv1.LevelMetadata},
		},
	}
}

// writePolicy writes the user's own policy, or else the one for groups.
func writePolicy(path string, own []byte, groups []string) error {
	if len(own) == 0 {
		var err error
		// The API server reads YAML, which includes JSON.
		if own, err = json.MarshalIndent(AuditPolicy(groups), "", "  "); err != nil {
			return fmt.Errorf("encoding the audit policy: %w", err)
		}
	}
	if err := os.WriteFile(path, own, 0o600); err != nil {
		return fmt.Errorf("writing the audit policy: %w", err)
	}
	return nil
}
