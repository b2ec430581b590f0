// SPDX-License-Identifier: Apache-2.0

package env

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Options configure a control plane. The zero value is a good default.
type Options struct {
	// ExistingCluster allows USE_EXISTING_CLUSTER=true. Without it, Start returns
	// ErrExistingCluster if that variable is true, because the caller may change objects that
	// belong to users of the cluster.
	ExistingCluster bool

	// WorkDir is the folder in which Start creates the control plane's own folder, with its data,
	// logs, kubeconfig and audit log. Empty: the system's folder for temporary files.
	WorkDir string

	// CRDs are files and folders of CustomResourceDefinitions to install before
	// kube-controller-manager starts. Its garbage collector looks for new kinds only every 30 s, so
	// it may ignore owner references to a kind that is installed later for as long.
	CRDs []string

	// Definitions are more CustomResourceDefinitions to install, as objects. Start does not change
	// them.
	Definitions []*apiextensionsv1.CustomResourceDefinition

	// AuditGroups are the API groups whose writes are recorded with request and response, in
	// addition to namespaces, events, leases and RBAC.
	AuditGroups []string

	// AuditPolicy is the text of an audit policy that replaces the default one. AuditGroups is then
	// ignored.
	AuditPolicy []byte

	// EtcdArgs are additional flags of etcd, without the leading dashes. A flag given here replaces
	// the default one.
	EtcdArgs map[string][]string

	// Controllers are the names of the controllers that kube-controller-manager runs. Empty:
	// DefaultControllers.
	Controllers []string
}

// DefaultControllers are the controllers whose absence an operator can observe. They collect
// garbage, remove deleted namespaces, create ServiceAccounts and aggregate ClusterRoles such as
// admin.
var DefaultControllers = []string{
	"garbage-collector-controller",
	"namespace-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
}
