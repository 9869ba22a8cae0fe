// Command screenshots renders images in Chromium: the dashboard from the facts of package example, and the documentation's
// site.
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
	"github.com/kamino-dev/kamino/internal/testing/example"
)

// largest is the limit of an image, in bytes.
const largest = 150 << 10

// shot is an image of a page.
type shot struct {
	file, page, size string
	isDark           bool
}

// Each page has an image with the width of a desktop in light mode, and one with the width of a phone in dark mode.
var (
	dashboards = []shot{{"dashboard-desktop.png", "", "1280,1180", false}, {"dashboard-phone.png", "", "390,1400", true}}
	sites      = []shot{{"site-desktop.png", "docs/tasks/before-you-start.html", "1280,600", false}, {"site-phone.png", "docs/tasks/before-you-start.html", "390,700", true}}
)

func main() {
	browser := flag.String("browser", "chromium", "path of Chromium")
	dir := flag.String("dir", "docs/images", "directory of the images")
	site := flag.String("site", "bin/site", "directory of the site")
	flag.Parse()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if err := errors.Join(dashboardImages(ctx, *browser, *dir), siteImages(ctx, *browser, *dir, *site)); err != nil {
		log.Fatal(err)
	}
}

func siteImages(ctx context.Context, browser, dir, site string) error {
	files, err := filepath.Abs(site)
	for _, s := range sites {
		err = errors.Join(err, take(ctx, browser, "file://"+filepath.ToSlash(files)+"/"+s.page, filepath.Join(dir, s.file), s.size, s.isDark))
	}
	return err
}

func dashboardImages(ctx context.Context, browser, dir string) error {
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
	for _, s := range dashboards {
		err = errors.Join(err, take(ctx, browser, "http://"+l.Addr().String()+"/"+s.page, filepath.Join(dir, s.file), s.size, s.isDark))
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
