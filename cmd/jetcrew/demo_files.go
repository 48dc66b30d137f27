package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf8"
)

// demoFiles are the regular files that the demo works on.
type demoFiles struct {
	Taken      int `json:"taken"`
	Over       int `json:"leftOut"`    // beyond the most to take
	Unreadable int `json:"unreadable"` // files and directories

	list []demoFile
}

// demoFile is a file with the digest that the demo itself computed.
type demoFile struct {
	path string // under the directory, with slashes
	want digest
}

// findFiles walks dir, following no link, and computes every digest.
func findFiles(ctx context.Context, dir string, most int) (demoFiles, error) {
	var out demoFiles
	root, err := os.OpenRoot(dir)
	if err != nil {
		return out, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			if path == "." {
				return err
			}
			out.Unreadable++
			return nil
		case !d.Type().IsRegular():
			return nil
		case !utf8.ValidString(path): // no JSON can name it
			out.Unreadable++
			return nil
		case len(out.list) >= most:
			out.Over++
			return nil
		}
		want, err := digestFile(ctx, root, path)
		if err != nil {
			out.Unreadable++
			return nil
		}
		out.list = append(out.list, demoFile{filepath.ToSlash(path), want})
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("directory %s: %w", dir, err)
	}
	out.Taken = len(out.list)
	return out, nil
}
