// SPDX-License-Identifier: Apache-2.0

package record

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Hash returns the text that a history contains in place of the value of a key of a Secret.
type Hash func(key, value string) string

// Salt is the key of hashes. Hashes can be compared if their salts are the same. Keep a salt in
// memory only: with the salt and a history, values of little entropy can be guessed.
type Salt [32]byte

// NewSalt returns a random salt. The salt is not derived from the seed of a sweep, because reports
// print the seed.
func NewSalt() Salt {
	var s Salt
	_, _ = io.ReadFull(rand.Reader, s[:]) // it never fails
	return s
}

// OrNew returns the salt, or a new one for the zero Salt.
func (s Salt) OrNew() Salt {
	if s == (Salt{}) {
		return NewSalt()
	}
	return s
}

// hashBytes is the length of a hash. 16 bytes do not collide by chance.
const hashBytes = 16

// Hash returns the Hash of one run. It replaces the names of the run by those of the scenario
// first, so a value that contains such names has the same hash in each run. The same value has
// different hashes under different keys.
func (s Salt) Hash(names *strings.Replacer) Hash {
	return func(key, value string) string {
		mac := hmac.New(sha256.New, s[:])
		fmt.Fprintf(mac, "%d:%s%s", len(key), key, names.Replace(value))
		return "hash:" + hex.EncodeToString(mac.Sum(nil)[:hashBytes])
	}
}

// hide replaces all values of a Secret by their hashes. It keeps the keys.
func hide(secret *unstructured.Unstructured, hash Hash) {
	for _, field := range []string{"data", "stringData"} {
		values, isMap := secret.Object[field].(map[string]any)
		if !isMap {
			delete(secret.Object, field)
			continue
		}
		for key, value := range values {
			text := fmt.Sprint(value)
			if plain, err := base64.StdEncoding.DecodeString(text); err == nil && field == "data" {
				text = string(plain)
			}
			values[key] = hash(key, text)
		}
	}
	// kubectl apply stores the whole Secret there.
	annotations := secret.GetAnnotations()
	if applied, there := annotations[corev1.LastAppliedConfigAnnotation]; there {
		annotations[corev1.LastAppliedConfigAnnotation] = hash(corev1.LastAppliedConfigAnnotation, applied)
		secret.SetAnnotations(annotations)
	}
}
