package manager_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"leasehold.dev/test/harness/expect"
)

// baseKey is the key of what a manager's base context carries.
type baseKey struct{}

var _ = Describe("What a manager runs", func() {
	It("is, for a plain function, run on the leader only and ended with its context", func(ctx SpecContext) {
		var j journal
		p := newPair(ctx, patient, func(r *replica) {
			Expect(r.Add(manager.RunnableFunc(func(ctx context.Context) error {
				j.note("start " + r.name)
				<-ctx.Done()
				j.note("end " + r.name)
				return nil
			}))).To(Succeed())
		})
		Eventually(j.read).Should(HaveExactElements("start first"))
		before := p.onStandby.count.Load()
		Consistently(j.read).Should(HaveExactElements("start first"))
		Expect(p.onStandby.count.Load()).To(BeNumerically(">", before), "the standby must have been alive meanwhile")

		p.leader.stop()
		Eventually(j.read).Should(HaveExactElements("start first", "end first", "start second"))
	}, SpecTimeout(expect.Long))

	It("is given the values of the base context, everywhere and on the leader", func(ctx SpecContext) {
		r := newReplica("based", newNamespace(ctx), func(_ *replica, o *ctrl.Options) {
			o.BaseContext = func() context.Context {
				return context.WithValue(context.WithoutCancel(ctx), baseKey{}, "of the replica")
			}
		})
		var j journal
		notes := func(name string) manager.RunnableFunc {
			return func(ctx context.Context) error {
				j.note(fmt.Sprint(name, ": ", ctx.Value(baseKey{})))
				<-ctx.Done()
				return nil
			}
		}
		Expect(r.Add(notes("leading"))).To(Succeed())
		Expect(r.Add(everywhereFunc{notes("everywhere")})).To(Succeed())
		r.start(ctx)
		Eventually(j.read).Should(ConsistOf("leading: of the replica", "everywhere: of the replica"))
		r.stop()
	}, SpecTimeout(expect.Long))
})

// everywhereFunc is a function that needs no lead.
type everywhereFunc struct{ manager.RunnableFunc }

func (everywhereFunc) NeedLeaderElection() bool { return false }

var _ = Describe("A field index", func() {
	It("by controller owner lists the children of one owner, by UID, and follows a change of owner",
		func(ctx SpecContext) {
			const byController = "metadata.controller"
			namespace := newNamespace(ctx)
			r := newReplica("indexed", namespace)
			Expect(r.GetFieldIndexer().IndexField(ctx, &corev1.ConfigMap{}, byController, func(o client.Object) []string {
				if c := metav1.GetControllerOfNoCopy(o); c != nil {
					return []string{string(c.UID)}
				}
				return nil
			})).To(Succeed())
			r.start(ctx)

			a, b := newConfigMap(ctx, namespace, "a"), newConfigMap(ctx, namespace, "b")
			child := func(name string, controller *corev1.ConfigMap, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
				GinkgoHelper()
				cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
				Expect(controllerutil.SetControllerReference(controller, cm, r.GetScheme())).To(Succeed())
				for _, owner := range owners {
					Expect(controllerutil.SetOwnerReference(owner, cm, r.GetScheme())).To(Succeed())
				}
				Expect(kube.Create(ctx, cm)).To(Succeed())
				return cm
			}
			child("of-a", a)
			shared := child("of-b", b, a)
			children := func(uid types.UID) (names []string, err error) {
				var list corev1.ConfigMapList
				err = r.GetClient().List(ctx, &list, client.InNamespace(namespace),
					client.MatchingFields{byController: string(uid)})
				for _, cm := range list.Items {
					names = append(names, cm.Name)
				}
				slices.Sort(names)
				return names, err
			}
			Eventually(children).WithArguments(a.UID).Should(HaveExactElements("of-a"))
			Eventually(children).WithArguments(b.UID).Should(HaveExactElements("of-b"),
				"an owner that is no controller has no child in the index")

			shared.OwnerReferences = nil
			Expect(controllerutil.SetControllerReference(a, shared, r.GetScheme())).To(Succeed())
			Expect(kube.Update(ctx, shared)).To(Succeed())
			Eventually(children).WithArguments(a.UID).Should(HaveExactElements("of-a", "of-b"))
			Expect(children(b.UID)).To(BeEmpty())
			Expect(children("a")).To(BeEmpty(), "a name is no UID")
		}, SpecTimeout(expect.Long))
})
