#!/bin/sh
echo never run here
