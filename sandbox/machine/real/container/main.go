// Command container is the only program in the images of the test's registry, linked statically, because the images
// contain nothing else. The program is the pause container, the workload, and a tool inside of a workload.
package main

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if filepath.Base(os.Args[0]) == "pause" {
		return serve()
	}
	if len(args) < 2 {
		return errors.New("name an action (serve, hold, write or check) and an argument")
	}
	switch args[0] {
	case "serve": // Further words stay visible in the arguments.
		return serve()
	case "hold": // Keep a variable in the environment of a process.
		return syscall.Exec(os.Args[0], []string{os.Args[0], "serve", "held"}, append(os.Environ(), args[1:]...)) //nolint:gosec // it becomes itself
	case "write": // Write standard input to the end of a file.
		return write(args[1])
	case "check":
		return check("/sums", args[1])
	default:
		return fmt.Errorf("%s: no such thing to do", args[0])
	}
}

// serve runs until a signal to stop.
func serve() error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM, syscall.SIGINT)
	<-asked
	return nil
}

func write(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600) //nolint:gosec // the test says which
	if err != nil {
		return err
	}
	_, err = io.Copy(f, os.Stdin)
	return errors.Join(err, f.Close())
}

// check reads every file in the image's list, and fails unless the number is right and all files are whole.
func check(list, want string) error {
	f, err := os.Open(list) //nolint:gosec // a constant
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	intact, lines := 0, bufio.NewScanner(f)
	for lines.Scan() {
		recorded, path, _ := strings.Cut(lines.Text(), "  ")
		content, err := os.ReadFile(path) //nolint:gosec // the image's own files
		if err != nil {
			return err
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != recorded {
			return fmt.Errorf("%s differs from the image: %d bytes", path, len(content))
		}
		intact++
	}
	if got := fmt.Sprint(intact); got != want {
		return fmt.Errorf("the image has %s files, not %s", got, want)
	}
	return lines.Err()
}
