"""Recordings as one HTML page that needs no network: `page_html(report)`."""

from tilestep.views.page.document import page_html as page_html
