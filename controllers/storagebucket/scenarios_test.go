package storagebucket

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// failures returns error responses by request.
func failures(list ...string) map[string]string {
	answers := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		answers[list[i]] = list[i+1]
	}
	return answers
}

// creations returns scenarios of a bucket that the operator creates, or that exists already.
func creations() map[string]fakeService {
	raced := func(s fakeService, answers ...string) fakeService {
		s.exists, s.answers = true,
			failures(append([]string{requestHead, "404 -", requestList, "404 NoSuchBucket"}, answers...)...)
		return s
	}
	const exists, owned = "409 BucketAlreadyExists", "409 BucketAlreadyOwnedByYou"
	return map[string]fakeService{
		"does not exist":          {},
		"tags are ignored":        {tags: "ignores"},
		"tags are rejected":       {tags: "refuses"},
		"creation is denied":      {answers: failures(requestCreate, "403 AccessDenied")},
		"tagging is denied":       {tags: "ignores", answers: failures(requestSetTag, "403 AccessDenied")},
		"the tags are unreadable": {answers: failures(requestTags, "500 InternalError")},

		"another account's": raced(fakeService{}, requestCreate, exists, requestTags,
			"403 AccessDenied"),
		"another account's, with the own owner tag": raced(fakeService{ownerTag: "uid-b"},
			requestCreate, exists),
		"created meanwhile by this operator": raced(fakeService{ownerTag: "uid-b"},
			requestCreate, owned),
		"created meanwhile by another":           raced(fakeService{ownerTag: "x"}, requestCreate, owned),
		"created meanwhile without an owner tag": raced(fakeService{}, requestCreate, owned),
		"created meanwhile, with unreadable tags": raced(fakeService{}, requestCreate, owned, requestTags,
			"403 AccessDenied"),
		"created meanwhile by another, with a success response":       raced(fakeService{ownerTag: "x"}),
		"created meanwhile with another tag, with a success response": raced(fakeService{otherTag: true}),

		"exists and owned":            {exists: true, ownerTag: "uid-b"},
		"exists with another owner":   {exists: true, ownerTag: "x"},
		"exists without an owner tag": {exists: true},
		"exists with unreadable tags": {exists: true, answers: failures(requestTags, "403 AccessDenied")},
		"a failing service":           {answers: failures(requestHead, "500 -")},
	}
}

// removals returns scenarios of a terminating StorageBucket.
func removals() map[string]fakeService {
	ours := fakeService{exists: true, ownerTag: "uid-b"}
	return map[string]fakeService{
		"an empty bucket": ours, "none": {}, "owned by another": {exists: true, ownerTag: "x"},
		"one without an owner tag":   {exists: true},
		"one that is not empty":      withFailures(ours, "DELETE", "409 BucketNotEmpty"),
		"one that may not be looked": withFailures(ours, requestList, "403 AccessDenied"),
		"of an unknown mark":         withFailures(ours, requestTags, "403 InvalidAccessKeyId"),
		"a failing service":          withFailures(ours, "DELETE", "503 SlowDown"),
	}
}

// scenarios returns the scenarios of TestReconcileGolden.
func scenarios() map[string]scenario {
	manage := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketManage }
	observe := func(b *v1beta1.StorageBucket) { b.Spec.ManagementPolicy = v1beta1.BucketObserve }
	all := map[string]scenario{}
	for name, s := range creations() {
		all["manage: "+name] = scenario{with: manage, service: s}
		all["observe: "+name] = scenario{with: observe, service: s}
	}
	for name, s := range handovers() {
		all["manage: "+name] = s
	}
	for name, s := range removals() {
		remove := deletedBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)
		all["remove: "+name] = scenario{with: remove, service: s, removed: true}
		all["remove with its namespace: "+name] = scenario{with: remove, service: s, removed: true, ending: time.Minute,
			reconciles: 3}
	}
	for policy, provisioning := range map[v1beta1.BucketDeletionPolicy]v1beta1.BucketProvisioning{
		v1beta1.BucketRetain: v1beta1.BucketIntended, v1beta1.BucketDelete: "",
	} {
		all["remove under "+string(policy)+", provisioning "+string(provisioning)] = scenario{
			with: deletedBucket(60, policy, provisioning), service: fakeService{exists: true, ownerTag: "uid-b"}, removed: true}
	}
	for _, answer := range []string{
		"403 SignatureDoesNotMatch", "403 AccessDenied", "403 RequestTimeTooSkewed", "400 AuthorizationHeaderMalformed",
		"404 NoSuchBucket", "503 SlowDown", "302 -", "301 PermanentRedirect", "500 -",
	} {
		all["fail: "+answer] = scenario{with: observe,
			service: fakeService{answers: failures(requestHead, strings.Fields(answer)[0], requestList, answer)}, reconciles: 4}
	}
	lacking := func(with func(*v1beta1.StorageBucket), secret func(*corev1.Secret), objects ...client.Object) scenario {
		return scenario{with: with, secret: secret, objects: objects, service: fakeService{exists: true}}
	}
	ca := func(b *v1beta1.StorageBucket) {
		b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca", Key: "ca.crt"}
	}
	none := func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "none" }
	all["lack: no Secret"] = lacking(none, nil)
	all["lack: no key"] = lacking(observe, func(s *corev1.Secret) { delete(s.Data, v1beta1.SecretKeySecretAccessKey) })
	all["lack: a line break within the token"] = lacking(observe,
		func(s *corev1.Secret) { s.Data[v1beta1.SecretKeySessionToken] = []byte("a\nb") })
	all["lack: no ConfigMap"] = lacking(ca, nil)
	all["lack: no certificate"] = lacking(ca, nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team",
		Name: "ca"}, Data: map[string]string{"ca.crt": "x"}})
	all["forbidden"] = scenario{with: observe, forbidden: true}
	all["remove: no Secret"] = scenario{removed: true, with: func(b *v1beta1.StorageBucket) {
		deletedBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)(b)
		none(b)
	}}
	lost := all["remove: no Secret"]
	lost.ending = time.Minute
	all["remove with its namespace: no Secret"] = lost
	// A terminating namespace accepts no new ConfigMap, but a correction of one.
	for _, name := range []string{"no ConfigMap", "no certificate"} {
		s := all["lack: "+name]
		s.removed, s.ending, s.with = true, time.Minute, func(b *v1beta1.StorageBucket) {
			deletedBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)(b)
			ca(b)
		}
		all["remove with its namespace: "+name] = s
	}
	return all
}
