package figures

import (
	"runtime"

	"github.com/prometheus/procfs"
)

// ThisMachine describes where this process runs. Memory and Load are zero where
// there is no /proc to read them from.
func ThisMachine() Machine {
	m := Machine{System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version()}
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return m
	}
	if memory, err := proc.Meminfo(); err == nil && memory.MemTotalBytes != nil {
		m.Memory = *memory.MemTotalBytes
	}
	if load, err := proc.LoadAvg(); err == nil {
		m.Load = load.Load1
	}
	return m
}
