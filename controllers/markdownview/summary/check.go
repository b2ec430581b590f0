package summary

import (
	"maps"
	"slices"
)

// Problems are the differences between a SUMMARY.md and the files beside it. None of them prevents
// rendering the other files.
type Problems struct {
	// Missing are the files that SUMMARY.md links to and that do not exist, each once, in the order
	// of the links.
	Missing []string
	// Unlisted are the files that SUMMARY.md does not link to, sorted. They are not in the
	// navigation. As in mdBook, links from other pages do not count. It is empty if Truncated is
	// true, because the rest of SUMMARY.md may link to them.
	Unlisted []string
	// Truncated is true if SUMMARY.md exceeds MaxBytes or MaxLineBytes.
	Truncated bool
}

// Check compares the SUMMARY.md in files with the other files. The keys of files are names, and the
// values are contents. Without a SUMMARY.md every file is unlisted.
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
