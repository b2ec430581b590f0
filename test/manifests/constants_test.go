// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/types"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/go/packages"
)

// Tests compute limits and times from the constants under test, so they accept a wrong unit. The
// golden file repeats each value. A name of the operator's namespace would bind it to that namespace.
func TestConstantsOfTheOperator(t *testing.T) {
	loaded, err := packages.Load(&packages.Config{
		Dir: "../..",
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo |
			packages.NeedImports | packages.NeedExportFile,
	}, ".", "./controllers/...", "./runners/...", "leasehold.dev/runners/election")
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range loaded {
		for _, e := range p.Errors {
			t.Fatal(e)
		}
		path := strings.TrimPrefix(strings.TrimPrefix(p.PkgPath, "leasehold.dev"), "/")
		for _, file := range p.Syntax {
			for _, declaration := range file.Decls {
				scope := path
				if f, ok := declaration.(*ast.FuncDecl); ok {
					scope += " " + f.Name.Name + "()"
				}
				ast.Inspect(declaration, func(n ast.Node) bool {
					switch n := n.(type) {
					case *ast.ValueSpec:
						lines = append(lines, constants(scope, n, p.TypesInfo)...)
					case *ast.BasicLit:
						if strings.Contains(n.Value, operatorNamespace) {
							t.Errorf("%s has the name %s: its namespace may have another", scope, operatorNamespace)
						}
					}
					return true
				})
			}
		}
	}
	slices.Sort(lines)
	compareGolden(t, "constants.txt", []byte(strings.Join(lines, "\n")+"\n"))
}

// constants returns a line for each numeric constant of a declaration, except for enumerations.
func constants(scope string, spec *ast.ValueSpec, info *types.Info) []string {
	var lines []string
	for _, name := range spec.Names {
		c, ok := info.Defs[name].(*types.Const)
		if !ok {
			continue
		}
		switch value := c.Val(); {
		case c.Type().String() == "time.Duration":
			nanoseconds, _ := constant.Int64Val(value)
			lines = append(lines, fmt.Sprintf("%s %s = %s", scope, name.Name, time.Duration(nanoseconds)))
		case types.Unalias(c.Type()).Underlying() != c.Type(): // a value of an enumeration
		case value.Kind() == constant.Int || value.Kind() == constant.Float:
			lines = append(lines, fmt.Sprintf("%s %s = %s", scope, name.Name, value))
		}
	}
	return lines
}
