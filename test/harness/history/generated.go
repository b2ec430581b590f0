package history

import (
	"iter"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
)

// suffix matches what generators of names append: a dash and five characters without vowels, as in
// k8s.io/apimachinery/pkg/util/rand.
const suffix = `-[bcdfghjklmnpqrstvwxz2456789]{5}`

// hash matches what operators put into names to tell contents apart, in hexadecimal digits or as
// k8s.io/apimachinery/pkg/util/rand encodes hashes.
const hash = `(?:[0-9a-f]{6,64}|[bcdfghjklmnpqrstvwxz2456789]{5,10})`

var (
	generated = regexp.MustCompile(suffix + "$")
	hashed    = regexp.MustCompile("^" + hash + "$")
	number    = regexp.MustCompile(`^[0-9]+$`)
)

// AliasGenerated adds aliases for the names that the users generated themselves for objects that
// they created. In an alias * stands for what differs from run to run. The API server's own
// generated names need none, because their objects have metadata.generateName.
func (h *History) AliasGenerated(users []string) {
	aliases, normal := map[string]string{}, h.Normalizer()
	for life := range h.named(users) {
		name, stars := life.Name, ""
		for generated.MatchString(name) && h.Aliases[name] == "" {
			cut := generated.FindStringIndex(name)[0]
			name, stars = name[:cut], stars+"-*"
		}
		if stars != "" {
			aliases[life.Name] = normal.Replace(name) + stars
		}
	}
	h.Merge(&History{Aliases: aliases})
}

// named returns the objects that the users created by names of their own.
func (h *History) named(users []string) iter.Seq[*Lifetime] {
	return func(yield func(*Lifetime) bool) {
		index := h.Index()
		for _, r := range h.Requests {
			life := index.Lifetime(r.UID)
			if !r.Made || life == nil || !slices.Contains(users, r.User) {
				continue
			}
			if last := life.Last(); last != nil && last.Object.GetGenerateName() != "" {
				continue
			}
			if !yield(life) {
				return
			}
		}
	}
}

// HashedNames are patterns of names with a hash that differs from run to run, as it depends on names
// of the scenario. In a pattern * stands for the hash.
type HashedNames struct {
	users    []string
	patterns map[Resource][]string
	steady   map[Key]bool // names that all clean runs have, without their namespaces
}

// LearnHashedNames compares the names that the users, and the cluster's own controllers for them,
// created in clean runs. Two names of two runs that differ in hashes alone have a pattern. A name
// that all runs have is no such name.
func LearnHashedNames(users []string, runs []*History) HashedNames {
	users = append(slices.Clone(users), user.KubeControllerManager)
	learned := HashedNames{users: users, patterns: map[Resource][]string{}, steady: map[Key]bool{}}
	having := map[Key][]int{} // the runs with a name
	for i, h := range runs {
		normal := h.Normalizer()
		for life := range h.named(users) {
			key := Key{Resource: life.Resource, Name: normal.Replace(life.Name)}
			if !slices.Contains(having[key], i) {
				having[key] = append(having[key], i)
			}
		}
	}
	for key, in := range having {
		learned.steady[key] = len(in) == len(runs)
		inBoth := func(i int) bool { return slices.Contains(in, i) }
		for other, inOther := range having {
			if key.Resource != other.Resource || slices.ContainsFunc(inOther, inBoth) {
				continue
			}
			known := learned.patterns[key.Resource]
			if pattern := hashPattern(key.Name, other.Name); pattern != "" && !slices.Contains(known, pattern) {
				learned.patterns[key.Resource] = append(known, pattern)
			}
		}
	}
	return learned
}

// hashPattern returns the pattern of two names that differ in hashes alone, or "".
func hashPattern(a, b string) string {
	return combined(a, b, func(a, b string) string {
		if hashed.MatchString(a) && hashed.MatchString(b) {
			return "*"
		}
		return ""
	})
}

// applied returns a name with * where a pattern has it, or "" if the name does not match. Numbers
// may differ: a fault may lead to one more revision.
func applied(pattern, name string) string {
	return combined(pattern, name, func(wanted, part string) string {
		switch {
		case wanted == "*" && hashed.MatchString(part):
			return "*"
		case number.MatchString(wanted) && number.MatchString(part):
			return part
		}
		return ""
	})
}

// combined returns the parts that two names share, and what different returns for the others; "" if
// that is "" for any part.
func combined(a, b string, different func(a, b string) string) string {
	as, bs := strings.Split(a, "-"), strings.Split(b, "-")
	if len(as) != len(bs) {
		return ""
	}
	for i := range as {
		if as[i] == bs[i] {
			continue
		}
		if as[i] = different(as[i], bs[i]); as[i] == "" {
			return ""
		}
	}
	return strings.Join(as, "-")
}

// Alias adds aliases for the names of a run that have one of the patterns. It returns the aliases by
// what the history called the names before.
func (n HashedNames) Alias(h *History) map[string]string {
	aliases, before, normal := map[string]string{}, map[string]string{}, h.Normalizer()
	for life := range h.named(n.users) {
		name := normal.Replace(life.Name)
		for _, pattern := range n.patterns[life.Resource] {
			if alias := applied(pattern, name); alias != "" && !n.steady[Key{Resource: life.Resource, Name: name}] {
				aliases[life.Name], before[name] = alias, alias
			}
		}
	}
	h.Merge(&History{Aliases: aliases})
	return before
}

// GeneratedPath returns the pattern of a path with the aliases of generated names, or nil if it has
// none.
func GeneratedPath(path string) *regexp.Regexp {
	if !strings.Contains(path, "-*") {
		return nil
	}
	literal := regexp.QuoteMeta(strings.TrimSuffix(path, "/"))
	return regexp.MustCompile("^" + strings.ReplaceAll(literal, regexp.QuoteMeta("-*"), "-"+hash) + "/?$")
}
