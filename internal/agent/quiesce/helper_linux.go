package quiesce

import (
	"errors"
	"fmt"
	"math"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FIFREEZE and FITHAW of linux/fs.h, _IOWR('X', 119, int) and _IOWR('X', 120, int).
const (
	fiFreeze = 0xC0045877
	fiThaw   = 0xC0045878
)

// helperWait is how long the helper waits, ready and locked in memory, before the freeze.
const helperWait = 3 * time.Second

// openRoot opens a directory so that neither the open nor a read of it writes a time of access.
func openRoot(dir string) (int, error) {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOATIME|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, fmt.Errorf("open %s: %w", dir, err)
	}
	return fd, nil
}

// Freeze is the work of the helper: it freezes the file system of a directory when a socket asks for it. It thaws at the
// answer, at the end of the connection, or after a second. The helper is the main process of the guard, so that the file
// system is thawed however the helper ends.
//
// While the file system is frozen the helper opens no file and needs no memory: all that it has is locked in memory, the
// collector is off, its thread runs nothing else, and it has done each step once before.
func Freeze(dir string, socket int) error {
	root, err := openRoot(dir)
	if err != nil {
		return err
	}
	s := &section{root: root, socket: socket}
	// A signal ends the helper, and the guard thaws.
	signal.Reset()
	runtime.LockOSThread()
	debug.SetMemoryLimit(math.MaxInt64)
	debug.SetGCPercent(-1)
	runtime.GC() // waits for a collection that has begun
	if err := s.rehearse(); err != nil {
		return fmt.Errorf("rehearse the freeze: %w", err)
	}
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE); err != nil {
		return fmt.Errorf("lock the program in memory: %w", err)
	}
	s.send(message{kind: msgReady})
	if s.receive(time.Now().Add(helperWait)) != msgProceed {
		return nil // the run has ended, or goes on without a freeze
	}
	s.freeze, s.thaw = fiFreeze, fiThaw
	return s.run()
}

// section is the part of the helper with a frozen file system. All memory that the part needs is in its fields.
type section struct {
	root, socket int
	// freeze and thaw are the requests to the file system; 0 in a rehearsal.
	freeze, thaw uintptr

	out, in       packet
	poll          unix.PollFd
	left          unix.Timespec
	before, after unix.Rusage
}

// errThaw is the error of a helper that could not thaw. The guard does.
var errThaw = errors.New("the file system could not be thawed")

// rehearse goes through the section without a freeze, against a socket of its own. So the stack has its size, and each page
// of code has been read.
func (s *section) rehearse() error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[0])
	defer unix.Close(pair[1])
	if err := unix.Send(pair[1], []byte{mark, byte(msgAccepted)}, 0); err != nil {
		return err
	}
	own := s.socket
	s.socket = pair[0]
	defer func() { s.socket = own }()
	_ = s.run() // the request 0 is none of a file system's
	return nil
}

// run freezes, says so, waits for the answer, thaws, and says so. Nothing below allocates.
func (s *section) run() error {
	rehearsal := s.freeze == 0
	begun := time.Now()
	if errno := ioctl(s.root, s.freeze); errno != 0 && !rehearsal {
		s.send(message{kind: msgFailed, errno: errno})
		return nil
	}
	s.usage(&s.before)
	at := time.Now()
	s.send(message{kind: msgFrozen, took: at.Sub(begun)})
	answer := s.receive(thawAt(begun, at))
	s.usage(&s.after)
	errno := ioctl(s.root, s.thaw)
	for try := 0; errno != 0 && errno != unix.EINVAL && try < 3 && !rehearsal; try++ {
		errno = ioctl(s.root, s.thaw)
	}
	s.send(message{
		kind: msgThawed, answer: answer, errno: errno, took: time.Since(begun),
		faults: s.after.Minflt + s.after.Majflt - s.before.Minflt - s.before.Majflt,
	})
	// Without a freeze there is nothing to thaw: EINVAL.
	if errno != 0 && errno != unix.EINVAL {
		return errThaw
	}
	return nil
}

// receive returns the next message's kind; 0 at the end of the connection, and at the deadline.
func (s *section) receive(deadline time.Time) kind {
	for {
		left := time.Until(deadline)
		if left <= 0 {
			return 0
		}
		s.left = unix.Timespec{Sec: int64(left / time.Second), Nsec: int64(left % time.Second)}
		s.poll = unix.PollFd{Fd: int32(s.socket), Events: unix.POLLIN} //nolint:gosec // a descriptor is small
		_, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&s.poll)), 1, uintptr(unsafe.Pointer(&s.left)), 0, 0, 0)
		if errno == unix.EINTR {
			continue
		}
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.socket), uintptr(unsafe.Pointer(&s.in)), messageSize, unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EAGAIN || errno == unix.EINTR:
		case errno != 0 || n < 2:
			return 0
		default:
			return kind(s.in[1])
		}
	}
}

// send never waits. A run that is gone needs no message.
func (s *section) send(m message) {
	m.encode(&s.out)
	_, _, _ = unix.RawSyscall6(unix.SYS_SENDTO, uintptr(s.socket), uintptr(unsafe.Pointer(&s.out)), messageSize, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
}

func (s *section) usage(into *unix.Rusage) {
	_, _, _ = unix.RawSyscall(unix.SYS_GETRUSAGE, unix.RUSAGE_SELF, uintptr(unsafe.Pointer(into)), 0)
}

// ioctl calls without the scheduler of Go, which may start a thread during a call.
func ioctl(fd int, request uintptr) syscall.Errno {
	_, _, errno := unix.RawSyscall(unix.SYS_IOCTL, uintptr(fd), request, 0)
	return errno
}
