// SPDX-License-Identifier: Apache-2.0

package env

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// Options configure a control plane. The zero value is a good default.
type Options struct {
	// ExistingCluster allows USE_EXISTING_CLUSTER=true. Without it Start refuses that variable: the
	// caller may change what belongs to the cluster's users.
	ExistingCluster bool

	// WorkDir is where the control plane's own folder is made, with its data,
	// logs, kubeconfig and audit log. Empty: the system's folder for such things.
	WorkDir string

	// CRDs are files and folders of CustomResourceDefinitions to install
	// before kube-controller-manager starts. Its garbage collector looks for
	// new kinds every 30 s only, so an owner reference to a kind that is
	// installed later may take as long to be followed.
	CRDs []string

	// Definitions are more of them, as objects. They are not changed.
	Definitions []*apiextensionsv1.CustomResourceDefinition

	// AuditGroups are the API groups whose writes are recorded with request
	// and response, on top of namespaces, events, leases and RBAC.
	AuditGroups []string

	// AuditPolicy is the text of an audit policy that replaces the whole of it.
	AuditPolicy []byte

	// EtcdArgs are more flags of etcd, without the leading dashes. A flag given here replaces the
	// default one.
	EtcdArgs map[string][]string

	// Controllers are the ones kube-controller-manager runs, by its own names
	// for them. Empty: DefaultControllers.
	Controllers []string
}

// DefaultControllers are those whose absence an operator can observe: they collect garbage, remove
// deleted namespaces, create ServiceAccounts and aggregate ClusterRoles such as admin.
var DefaultControllers = []string{
	"garbage-collector-controller",
	"namespace-controller",
	"serviceaccount-controller",
	"serviceaccount-token-controller",
	"root-ca-certificate-publisher-controller",
	"clusterrole-aggregation-controller",
}
