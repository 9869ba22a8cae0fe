package quiesce

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"
)

// TestMain is also the helper, and a program with a lock.
func TestMain(m *testing.M) {
	if len(os.Args) < 3 {
		os.Exit(m.Run())
	}
	var err error
	switch os.Args[1] {
	case "freeze":
		err = Freeze(os.Args[2], 0)
	case "lock":
		err = holdLock(os.Args[2], os.Args[3])
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// holdLock holds a lock until the end of the input.
func holdLock(file, how string) error {
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	lock := syscall.Flock_t{Type: map[string]int16{"write": syscall.F_WRLCK, "read": syscall.F_RDLCK}[how]}
	if err := syscall.FcntlFlock(f.Fd(), syscall.F_SETLK, &lock); err != nil {
		return err
	}
	fmt.Println("locked")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
