package storagebucket

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"leasehold.dev/api/v1beta1"
)

// answering are failures by request.
func answering(list ...string) map[string]string {
	answers := map[string]string{}
	for i := 0; i < len(list); i += 2 {
		answers[list[i]] = list[i+1]
	}
	return answers
}

// creations are scenarios of a bucket that the operator creates, or that exists already.
func creations() map[string]service {
	raced := func(s service, answers ...string) service {
		s.exists, s.answers = true, answering(append([]string{looks, "404 -", lists, "404 NoSuchBucket"}, answers...)...)
		return s
	}
	const exists, owned = "409 BucketAlreadyExists", "409 BucketAlreadyOwnedByYou"
	return map[string]service{
		"none yet":                {},
		"tags are ignored":        {tags: "ignores"},
		"tags are refused":        {tags: "refuses"},
		"may not be made":         {answers: answering(makes, "403 AccessDenied")},
		"may not be marked":       {tags: "ignores", answers: answering(setsMark, "403 AccessDenied")},
		"the mark cannot be seen": {answers: answering(asksMark, "500 InternalError")},

		"another account's":                                     raced(service{}, makes, exists, asksMark, "403 AccessDenied"),
		"another account's, of our mark":                        raced(service{owner: "uid-b"}, makes, exists),
		"made meanwhile by us":                                  raced(service{owner: "uid-b"}, makes, owned),
		"made meanwhile by another":                             raced(service{owner: "x"}, makes, owned),
		"made meanwhile without a mark":                         raced(service{}, makes, owned),
		"made meanwhile, of an unknown mark":                    raced(service{}, makes, owned, asksMark, "403 AccessDenied"),
		"made meanwhile by another, and called a success":       raced(service{owner: "x"}),
		"made meanwhile with another tag, and called a success": raced(service{other: true}),

		"there and ours":         {exists: true, owner: "uid-b"},
		"there and another's":    {exists: true, owner: "x"},
		"there without a mark":   {exists: true},
		"there, of unknown mark": {exists: true, answers: answering(asksMark, "403 AccessDenied")},
		"a service in trouble":   {answers: answering(looks, "500 -")},
	}
}

// removals are scenarios of a StorageBucket that is being deleted.
func removals() map[string]service {
	ours := service{exists: true, owner: "uid-b"}
	return map[string]service{
		"an empty bucket": ours, "none": {}, "another's": {exists: true, owner: "x"}, "one without a mark": {exists: true},
		"one that is not empty":      withAnswers(ours, "DELETE", "409 BucketNotEmpty"),
		"one that may not be looked": withAnswers(ours, lists, "403 AccessDenied"),
		"of an unknown mark":         withAnswers(ours, asksMark, "403 InvalidAccessKeyId"),
		"a service in trouble":       withAnswers(ours, "DELETE", "503 SlowDown"),
	}
}

// scenarios are all that TestReconcileGolden records.
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
		remove := leavingBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)
		all["remove: "+name] = scenario{with: remove, service: s, removed: true}
		all["remove with its namespace: "+name] = scenario{with: remove, service: s, removed: true, ending: time.Minute, reconciles: 3}
	}
	for policy, provisioning := range map[v1beta1.BucketDeletionPolicy]v1beta1.BucketProvisioning{
		v1beta1.BucketRetain: v1beta1.BucketIntended, v1beta1.BucketDelete: "",
	} {
		all["remove under "+string(policy)+", provisioning "+string(provisioning)] = scenario{
			with: leavingBucket(60, policy, provisioning), service: service{exists: true, owner: "uid-b"}, removed: true}
	}
	for _, answer := range []string{
		"403 SignatureDoesNotMatch", "403 AccessDenied", "403 RequestTimeTooSkewed", "400 AuthorizationHeaderMalformed", "404 NoSuchBucket", "503 SlowDown", "302 -", "301 PermanentRedirect", "500 -",
	} {
		all["fail: "+answer] = scenario{with: observe, service: service{answers: answering(looks, strings.Fields(answer)[0], lists, answer)}, reconciles: 4}
	}
	lacking := func(with func(*v1beta1.StorageBucket), secret func(*corev1.Secret), objects ...client.Object) scenario {
		return scenario{with: with, secret: secret, objects: objects, service: service{exists: true}}
	}
	ca := func(b *v1beta1.StorageBucket) {
		b.Spec.CABundleRef = &v1beta1.ConfigMapKeyReference{Name: "ca", Key: "ca.crt"}
	}
	none := func(b *v1beta1.StorageBucket) { b.Spec.CredentialsSecretRef.Name = "none" }
	all["lack: no Secret"] = lacking(none, nil)
	all["lack: no key"] = lacking(observe, func(s *corev1.Secret) { delete(s.Data, v1beta1.SecretKeySecretAccessKey) })
	all["lack: a line break within the token"] = lacking(observe, func(s *corev1.Secret) { s.Data[v1beta1.SecretKeySessionToken] = []byte("a\nb") })
	all["lack: no ConfigMap"] = lacking(ca, nil)
	all["lack: no certificate"] = lacking(ca, nil, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "ca"}, Data: map[string]string{"ca.crt": "x"}})
	all["forbidden"] = scenario{with: observe, forbidden: true}
	all["remove: no Secret"] = scenario{removed: true, with: func(b *v1beta1.StorageBucket) {
		leavingBucket(60, v1beta1.BucketDelete, v1beta1.BucketCreated)(b)
		none(b)
	}}
	lost := all["remove: no Secret"]
	lost.ending = time.Minute
	all["remove with its namespace: no Secret"] = lost
	return all
}
