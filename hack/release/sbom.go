package main

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"
)

// unknown is SPDX's word for what was not examined.
const unknown = "NOASSERTION"

// writeSBOM writes what a binary was made of, as the linker recorded it: the modules whose
// packages are in the binary, and the standard library.
func (r *release) writeSBOM(p program, arch string) error {
	binary := p.binary(arch)
	info, err := buildinfo.ReadFile(filepath.Join(r.dist, binary))
	if err != nil {
		return fmt.Errorf("reading the build info: %w", err)
	}
	sum, err := sumOf(filepath.Join(r.dist, binary))
	if err != nil {
		return err
	}
	file, err := os.Create(filepath.Join(r.dist, binary+".spdx.json"))
	if err != nil {
		return fmt.Errorf("creating the SBOM: %w", err)
	}
	if err := spdxjson.Write(r.sbom(info, binary, sum), file, spdxjson.Indent("  ")); err != nil {
		_ = file.Close()
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("writing the SBOM: %w", err)
	}
	return nil
}

// sbom describes the binary as a package that depends on modules. Licences are not
// examined.
func (r *release) sbom(info *debug.BuildInfo, binary, sum string) *v2_3.Document {
	main := newPackage("Binary", info.Main.Path, info.Main.Version)
	main.PackageName, main.PackageFileName, main.PrimaryPackagePurpose = binary, binary, "APPLICATION"
	main.PackageChecksums = []common.Checksum{{Algorithm: common.SHA256, Value: sum}}
	document := &v2_3.Document{
		SPDXVersion: v2_3.Version, DataLicense: v2_3.DataLicense, SPDXIdentifier: "DOCUMENT",
		DocumentName: binary + " " + r.version,
		// Unique, as the sum is that of this binary and no other.
		DocumentNamespace: "https://" + info.Main.Path + "/spdx/" + binary + "-" + sum,
		CreationInfo: &v2_3.CreationInfo{
			Creators: []common.Creator{{CreatorType: "Tool", Creator: "hack/release"}},
			Created:  r.time.Format("2006-01-02T15:04:05Z"),
		},
		Packages: []*v2_3.Package{main},
		Relationships: []*v2_3.Relationship{relationship("DOCUMENT", common.TypeRelationshipDescribe,
			main.PackageSPDXIdentifier)},
	}
	add := func(path, version string) {
		added := newPackage(fmt.Sprintf("Module-%d", len(document.Packages)), path, version)
		document.Packages = append(document.Packages, added)
		document.Relationships = append(document.Relationships,
			relationship(main.PackageSPDXIdentifier, common.TypeRelationshipDependsOn, added.PackageSPDXIdentifier))
	}
	add("stdlib", strings.TrimPrefix(info.GoVersion, "go"))
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		add(module.Path, module.Version)
	}
	return document
}

func newPackage(id, module, version string) *v2_3.Package {
	return &v2_3.Package{
		PackageName: module, PackageSPDXIdentifier: common.ElementID(id), PackageVersion: version,
		PackageDownloadLocation: unknown, PackageLicenseConcluded: unknown, PackageLicenseDeclared: unknown,
		PackageCopyrightText:      unknown,
		IsFilesAnalyzedTagPresent: true,
		PackageExternalReferences: []*v2_3.PackageExternalReference{{
			Category: common.CategoryPackageManager, RefType: common.TypePackageManagerPURL,
			Locator: "pkg:golang/" + module + "@" + version,
		}},
	}
}

func relationship(from common.ElementID, kind string, to common.ElementID) *v2_3.Relationship {
	return &v2_3.Relationship{
		RefA: common.DocElementID{ElementRefID: from}, RefB: common.DocElementID{ElementRefID: to}, Relationship: kind,
	}
}
