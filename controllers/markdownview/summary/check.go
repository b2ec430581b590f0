package summary

import (
	"maps"
	"slices"
)

// Problems is what is amiss between a SUMMARY.md and the files of its set. None
// of it keeps the rest from being shown.
type Problems struct {
	// Missing are the files that SUMMARY.md links to and that are not in the set, each
	// once, in the order of the links.
	Missing []string
	// Unlisted are the files of the set that SUMMARY.md does not link to, sorted; no
	// reader finds them in the navigation. A link from another page does not
	// count, as with mdBook. Empty when Truncated: what was not read may link.
	Unlisted []string
	// Truncated: SUMMARY.md goes beyond MaxBytes or MaxLineBytes.
	Truncated bool
}

// Check compares the SUMMARY.md among files with the others. files is contents by
// name. Without a SUMMARY.md every file is unlisted.
func Check(files map[string]string) Problems {
	s := Parse([]byte(files[FileName]))
	p := Problems{Truncated: s.Truncated}
	linked := map[string]bool{FileName: true}
	for _, e := range s.Entries {
		if e.File == "" || linked[e.File] {
			continue
		}
		linked[e.File] = true
		if _, ok := files[e.File]; !ok {
			p.Missing = append(p.Missing, e.File)
		}
	}
	if s.Truncated {
		return p
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !linked[name] {
			p.Unlisted = append(p.Unlisted, name)
		}
	}
	return p
}
