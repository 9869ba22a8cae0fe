package child

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// memoryEvery is the interval between readings of the memory. Go returns unused memory to the kernel much slower.
const memoryEvery = 20 * time.Millisecond

// WatchMemory reads the anonymous resident size of a process until peak is called. peak returns the highest reading, in
// bytes. The mapped pages of the program file do not count: their number depends on the page cache of the machine.
func WatchMemory(pid int) (peak func() int64) {
	done, highest := make(chan struct{}), make(chan int64, 1)
	go func() {
		tick := time.NewTicker(memoryEvery)
		defer tick.Stop()
		most := int64(0)
		for {
			most = max(most, anonymous(pid))
			select {
			case <-done:
				highest <- most
				return
			case <-tick.C:
			}
		}
	}()
	return func() int64 { close(done); return <-highest }
}

// anonymous reads the anonymous resident size of a process, in bytes; 0 if the process is gone. Source:
// proc_pid_status(5).
func anonymous(pid int) int64 {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "RssAnon:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib * 1024
		}
	}
	return 0
}
