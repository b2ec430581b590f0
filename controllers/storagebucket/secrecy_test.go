package storagebucket

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"leasehold.dev/api/v1beta1"
	"leasehold.dev/controllers/internal/reporting"
)

// The status names only the key of an unusable value. The value appears neither in the status nor
// in events, logs or metrics.
func TestUnusableSecretValueIsNotDisclosed(t *testing.T) {
	const sentinel = "SENTINEL"
	good := map[string]string{
		v1beta1.SecretKeyAccessKeyID: sentinel + "ID", v1beta1.SecretKeySecretAccessKey: sentinel + "KEY",
		v1beta1.SecretKeySessionToken: sentinel + "TOKEN",
	}
	for key, value := range good {
		for name, unusable := range map[string]string{
			"an inner line break": value + "\n" + value, "a carriage return": value + "\r" + value,
			"a null": value + "\x00", "an inner tab": value + "\t" + value,
		} {
			t.Run(key+" with "+name, func(t *testing.T) {
				data := map[string][]byte{}
				for k, v := range good {
					data[k] = []byte(v)
				}
				data[key] = []byte(unusable)
				checkUnusable(t, key, data, sentinel)
			})
		}
	}
}

func checkUnusable(t *testing.T, key string, data map[string][]byte, sentinel string) {
	t.Helper()
	w := newFixture(t, func(context.Context, client.Client) {})
	registry := prometheus.NewRegistry()
	m, err := newMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	recorder := events.NewFakeRecorder(10)
	w.metrics, w.Recorder = m, recorder
	if err := w.stored.Update(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "creds"}, Data: data}); err != nil {
		t.Fatal(err)
	}
	var shown []string
	ctx := log.IntoContext(t.Context(),
		funcr.New(func(_, line string) { shown = append(shown, line) }, funcr.Options{Verbosity: 10}))
	name := client.ObjectKey{Namespace: "team", Name: "b"}
	if _, err := w.Reconcile(ctx, ctrl.Request{NamespacedName: name}); err != nil {
		shown = append(shown, err.Error())
		t.Error("a value that cannot be used is an error of ours")
	}
	b := &v1beta1.StorageBucket{}
	if err := w.stored.Get(ctx, name, b); err != nil {
		t.Fatal(err)
	}
	if ready := reporting.FindCondition(b.Status.Conditions,
		v1beta1.ConditionReady); ready.Reason != v1beta1.ReasonCredentialsNotFound ||
		!strings.Contains(ready.Message, "no valid value for the key "+key) {
		t.Errorf("Ready is %+v, want the name of the key", ready)
	}
	status, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) == 0 {
		t.Fatalf("metrics %v: %v", families, err)
	}
	shown = append(shown, string(status), fmt.Sprint(families), <-recorder.Events)
	if all := strings.Join(shown, "\n"); strings.Contains(all, sentinel) {
		t.Errorf("the value is shown:\n%s", all)
	}
	if w.requestCount.Load() != 0 {
		t.Error("something was sent")
	}
}

// The key with a control character is named, whichever it is: net/http would refuse each request.
func TestCredentialsHaveNoControlCharacters(t *testing.T) {
	keys := []string{v1beta1.SecretKeyAccessKeyID, v1beta1.SecretKeySecretAccessKey, v1beta1.SecretKeySessionToken}
	for _, bad := range append(keys, "") {
		secret := &corev1.Secret{Data: map[string][]byte{}}
		for _, key := range keys {
			secret.Data[key] = []byte("value\n")
		}
		if bad != "" {
			secret.Data[bad] = []byte("a\nb")
		}
		if credentials, key := credentialsIn(secret); key != bad || (bad == "") != (credentials.SessionToken == "value") {
			t.Errorf("%q refused, want %q", key, bad)
		}
	}
}
