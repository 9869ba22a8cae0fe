// Command picture runs a command on a terminal of its own, and writes the screen at the end as SVG.
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	log.SetFlags(0)
	out := flag.String("o", "", "the SVG file")
	title := flag.String("title", "", "the command line to show above its output")
	columns := flag.Int("columns", 80, "columns of the terminal")
	rows := flag.Int("rows", 100, "rows of the terminal")
	from := flag.String("from", "", "drop the lines above the first with this text")
	flag.Parse()
	text, err := run(*columns, *rows, flag.Args())
	if err != nil {
		log.Fatal(err)
	}
	lines := draw(text)
	for *from != "" && len(lines) > 0 && !strings.Contains(plain(lines[0]), *from) {
		lines = lines[1:]
	}
	if len(lines) == 0 {
		log.Fatalf("no line holds %q", *from)
	}
	if *title != "" {
		lines = append([][]cell{styled("$ "+*title, "1"), nil}, lines...)
	}
	if err := os.WriteFile(*out, []byte(svg(lines, *columns)), 0o644); err != nil {
		log.Fatal(err)
	}
}

// run runs the command on a new terminal, and returns what the command wrote.
func run(columns, rows int, args []string) (string, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer master.Close()
	fd := int(master.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return "", err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return "", err
	}
	if err := unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(rows), Col: uint16(columns)}); err != nil {
		return "", err
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		return "", err
	}
	command := exec.Command(args[0], args[1:]...) //nolint:gosec // the caller's own command
	command.Stdout, command.Stderr = terminal, terminal
	command.Env = append(os.Environ(), "TERM=xterm-256color")
	if err := command.Start(); err != nil {
		return "", err
	}
	_ = terminal.Close()
	text, _ := io.ReadAll(master) // a terminal without a writer ends with an error
	if err := command.Wait(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, text)
	}
	return string(text), nil
}
