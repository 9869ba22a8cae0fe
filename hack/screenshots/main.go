// Command screenshots renders the images of docs/tasks/dashboard.md in Chromium, from the facts of package example.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"

	"github.com/kamino-dev/kamino/internal/dashboard"
	"github.com/kamino-dev/kamino/internal/dashboard/web"
	"github.com/kamino-dev/kamino/internal/dashboard/web/page/example"
)

// largest is the limit of an image, in bytes.
const largest = 150 << 10

// shots are the images: a width of a desktop in light mode, and a width of a phone in dark mode.
var shots = []struct {
	file, size string
	isDark     bool
}{
	{"dashboard-desktop.png", "1280,1180", false},
	{"dashboard-phone.png", "390,1400", true},
}

func main() {
	browser := flag.String("browser", "chromium", "path of Chromium")
	dir := flag.String("dir", "docs/images", "directory of the images")
	flag.Parse()
	if err := run(*browser, *dir); err != nil {
		log.Fatal(err)
	}
}

func run(browser, dir string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	l, err := web.ListenLocal(ctx, "localhost:0")
	if err != nil {
		return err
	}
	server := &web.Server{
		Look:    func(context.Context) (dashboard.View, error) { return example.View(), nil },
		Explain: error.Error, Interval: time.Hour, Now: time.Now, Log: logr.Discard(),
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- server.Serve(serving, l) }()
	for _, shot := range shots {
		err = errors.Join(err, take(ctx, browser, "http://"+l.Addr().String()+"/", filepath.Join(dir, shot.file), shot.size, shot.isDark))
	}
	stop()
	return errors.Join(err, <-done)
}

func take(ctx context.Context, browser, url, file, size string, isDark bool) error {
	scheme := "--blink-settings=preferredColorScheme=1"
	if isDark {
		scheme = "--blink-settings=preferredColorScheme=0"
	}
	profile, err := os.MkdirTemp("", "kamino-screenshots-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(profile) }()
	out, err := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+profile,
		"--window-size="+size, scheme, "--screenshot="+file, url).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", browser, err, out)
	}
	seen, err := os.Stat(file)
	if err != nil {
		return fmt.Errorf("%s wrote no image: %w\n%s", browser, err, out)
	}
	if seen.Size() > largest {
		return fmt.Errorf("%s has %d bytes, at most %d", file, seen.Size(), largest)
	}
	fmt.Printf("%s: %d bytes\n", file, seen.Size())
	return nil
}
