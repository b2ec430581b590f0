package history

import (
	"regexp"
	"slices"
	"strings"
)

// suffix matches what generators of names append: a dash and five characters without vowels, as in
// k8s.io/apimachinery/pkg/util/rand.
const suffix = `-[bcdfghjklmnpqrstvwxz2456789]{5}`

var generated = regexp.MustCompile(suffix + "$")

// AliasGenerated adds aliases for the names that the users generated themselves for objects that
// they created. In an alias * stands for what differs from run to run. The API server's own
// generated names need none, because their objects have metadata.generateName.
func (h *History) AliasGenerated(users []string) {
	aliases := map[string]string{}
	normal, index := h.Normalizer(), h.Index()
	for _, r := range h.Requests {
		life := index.Lifetime(r.UID)
		if !r.Made || life == nil || !slices.Contains(users, r.User) {
			continue
		}
		if last := life.Last(); last != nil && last.Object.GetGenerateName() != "" {
			continue
		}
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

// GeneratedPath returns the pattern of a path with the aliases of generated names, or nil if it has
// none.
func GeneratedPath(path string) *regexp.Regexp {
	if !strings.Contains(path, "-*") {
		return nil
	}
	literal := regexp.QuoteMeta(strings.TrimSuffix(path, "/"))
	return regexp.MustCompile("^" + strings.ReplaceAll(literal, regexp.QuoteMeta("-*"), suffix) + "/?$")
}
