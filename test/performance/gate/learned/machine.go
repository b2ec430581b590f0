package learned

import (
	"fmt"
	"runtime"
)

// Machine says what kind of machine this is: system, architecture and cores.
func Machine() string {
	return fmt.Sprintf("%s/%s, %d cores", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
}
